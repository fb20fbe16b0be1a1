//! Running computations: interruption, memory budget, time slices, helper tasks, CPU clock.

pub(crate) mod clock;
pub(crate) mod interrupt;
pub(crate) mod memory;
pub(crate) mod spawner;
pub(crate) mod time_slice;
