//! Running computations: interruption, memory budget, memory of the machine, time slices, helper
//! tasks, CPU clock.

pub(crate) mod clock;
pub(crate) mod interrupt;
pub(crate) mod machine;
pub(crate) mod memory;
pub(crate) mod spawner;
pub(crate) mod time_slice;
