//! The Python package: a wheel is made of the library that was compiled with this test, installed,
//! and tested by Python.

use std::path::{Path, PathBuf};
use std::process::Command;

use pushdowndb_testkit::skip::skipped;
use pushdowndb_testkit::{python, repository};

/// What the tests import besides the package and the standard library.
const PACKAGES: [&str; 9] =
    ["pytest", "mypy", "sqlalchemy", "numpy", "pandas", "polars", "pyarrow", "duckdb", "datafusion"];

/// The library beside this test, which Cargo compiles for it.
fn library() -> PathBuf {
    let test = std::env::current_exe().expect("the path of this test");
    let name = format!("{}_pushdowndb{}", std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX);
    let library = test.with_file_name(name);
    assert!(library.is_file(), "{} is missing", library.display());
    library
}

/// Makes a wheel in `folder`.
fn wheel(folder: &Path) -> PathBuf {
    let mut assemble = python::script("python/assemble.py");
    let wheel = python::run(assemble.arg("--library").arg(library()).arg("--into").arg(folder));
    PathBuf::from(wheel.trim())
}

/// Installs a wheel by `python`, from the wheel alone.
fn install(python: &Path, wheel: &Path, into: Option<&Path>) {
    let mut pip = Command::new(python);
    pip.args(["-m", "pip", "install", "--quiet", "--no-index", "--disable-pip-version-check"]).arg(wheel);
    if let Some(folder) = into {
        pip.arg("--target").arg(folder);
    }
    python::run(&mut pip);
}

#[test]
fn the_wheel_needs_nothing_and_has_the_command() {
    let folder = tempfile::tempdir().expect("a folder");
    let environment = folder.path().join("empty");
    python::run(Command::new("python3").args(["-m", "venv"]).arg(&environment));
    let bin = environment.join("bin");
    install(&bin.join("python"), &wheel(folder.path()), None);
    let program = "import pushdowndb; print(pushdowndb.sql('SELECT 6 * 7 AS answer'), pushdowndb.__version__)";
    let shown = python::run(Command::new(bin.join("python")).args(["-c", program]));
    assert!(shown.contains("│ answer │") && shown.contains("│     42 │"), "{shown}");
    assert!(shown.trim_end().ends_with(env!("CARGO_PKG_VERSION")), "{shown}");
    let command = ["--format", "csv", "-c", "SELECT 6 * 7 AS answer"];
    assert_eq!(python::run(Command::new(bin.join("pushdowndb")).args(command)), "answer\n42\n");
}

#[test]
fn the_package_passes_its_tests_and_is_typed() {
    if !PACKAGES.iter().all(|package| python::has(package)) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let installed = folder.path().join("installed");
    install(Path::new("python3"), &wheel(folder.path()), Some(&installed));
    let sources = repository().join("python");
    let mut pytest = Command::new("python3");
    pytest.args(["-m", "pytest", "-q", "-p", "no:cacheprovider"]).arg(sources.join("tests"));
    // Not the sources beside the tests: the installed package.
    pytest.current_dir(folder.path()).env("PYTHONPATH", &installed);
    pytest.env("PUSHDOWNDB_DOCS", repository().join("docs")).env("PYTHONDONTWRITEBYTECODE", "1");
    let told = python::run(&mut pytest);
    if told.contains("skipped") {
        skipped("a test of the Python package");
    }

    let mut mypy = Command::new("python3");
    mypy.args(["-m", "mypy", "--cache-dir", "/dev/null", "--config-file"]).arg(sources.join("pyproject.toml"));
    python::run(mypy.current_dir(&sources));
}
