//! The corpus is replayed: inputs that once failed do so no more.

use std::fs;
use std::path::Path;

use pushdowndb_fuzz::TARGETS;

#[test]
fn every_input_of_the_corpus_passes() {
    for target in TARGETS {
        let folder = Path::new("corpus").join(target.name);
        let mut inputs: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        inputs.sort_unstable();
        assert!(!inputs.is_empty(), "{} has no corpus", target.name);
        for input in inputs {
            // A panic ends the test; its name is then the last one shown.
            println!("{}", input.display());
            (target.run)(&fs::read(&input).unwrap());
        }
    }
}
