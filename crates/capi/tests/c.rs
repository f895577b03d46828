//! The header is as the code is, and a program in C that uses it does what it is for.

use std::path::{Path, PathBuf};
use std::process::Command;

fn folder() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// `WRITE_HEADER=1` writes it anew.
#[test]
fn the_header_is_up_to_date() {
    let file = folder().join("include/tombolo.h");
    let mut config = cbindgen::Config::from_file(folder().join("cbindgen.toml")).unwrap();
    let version = tombolo_c::TOMBOLO_ABI_VERSION;
    config.after_includes = Some(format!("\n#define TOMBOLO_ABI_VERSION {version}"));
    config.export.exclude.push("TOMBOLO_ABI_VERSION".to_owned());
    let made = cbindgen::Builder::new().with_config(config).with_crate(folder()).generate();
    let mut text = Vec::new();
    made.unwrap().write(&mut text);
    let text = String::from_utf8(text).unwrap();
    if std::env::var_os("WRITE_HEADER").is_some() {
        std::fs::write(&file, &text).unwrap();
    }
    let there = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(there == text, "run WRITE_HEADER=1 cargo test -p tombolo-capi --test c");
}

/// Where the tests' libraries are.
fn libraries() -> PathBuf {
    let mut folder = std::env::current_exe().unwrap();
    folder.pop();
    folder
}

/// Compiles an example and runs it; `None`, and a line that says so, without a compiler.
fn run(
    example: &str,
    arguments: &[&str],
    with: &[&str],
    environment: Option<(&str, &Path)>,
) -> Option<(bool, String)> {
    let built = tempfile::tempdir().unwrap();
    let program = built.path().join(example);
    let mut cc = Command::new("cc");
    cc.args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-pedantic", "-I"])
        .arg(folder().join("include"))
        .arg("-o")
        .arg(&program)
        .arg(folder().join("examples").join(format!("{example}.c")))
        .args(with);
    let compiled = match cc.output() {
        Ok(output) => output,
        Err(reason) => {
            eprintln!("skipped: there is no cc: {reason}");
            return None;
        }
    };
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    let mut command = Command::new(&program);
    command.args(arguments).envs(environment);
    let output = command.output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    Some((output.status.success(), String::from_utf8_lossy(&said).into_owned()))
}

/// Runs both examples with a library.
fn examples_run(with: &[&str], environment: Option<(&str, &Path)>) {
    let Some((is_success, said)) = run("tiers", &[], with, environment) else { return };
    let can_move = tombolo_tiering::probe().is_ok();
    assert!(is_success, "{said}");
    let expected = if can_move { "64 pages moved" } else { "pages do not move here" };
    assert!(said.contains(expected), "{said}");

    let memory = tempfile::tempdir_in("/dev/shm").unwrap();
    let pod = memory.path().join("pod");
    let Some((is_success, said)) = run("pod", &[pod.to_str().unwrap()], with, environment) else {
        return;
    };
    assert!(is_success && said.contains("4 objects"), "{said}");
}

#[test]
fn the_examples_run_with_the_shared_library() {
    let here = libraries();
    let link = format!("-L{}", here.display());
    examples_run(&[&link, "-ltombolo_c"], Some(("LD_LIBRARY_PATH", &here)));
}

#[test]
fn the_examples_run_with_the_static_library() {
    let archive = libraries().join("libtombolo_c.a");
    let archive = archive.to_str().unwrap();
    examples_run(&[archive, "-lpthread", "-ldl", "-lm"], None);
}

/// As the documentation says: installed, a program finds header and library by `pkg-config`.
#[test]
fn an_installed_library_is_found() {
    let installed = tempfile::tempdir().unwrap();
    let prefix = installed.path();
    let mut install = Command::new(folder().join("install"));
    let ran = install.arg(prefix).arg(libraries()).output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    for file in ["include/tombolo.h", "lib/libtombolo.so", "lib/libtombolo.a"] {
        assert!(prefix.join(file).exists(), "{file}");
    }
    let mut tool = Command::new("pkg-config");
    tool.args(["--cflags", "--libs", "tombolo"])
        .env("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig"));
    let Ok(found) = tool.output() else {
        eprintln!("skipped: there is no pkg-config");
        return;
    };
    assert!(found.status.success(), "{}", String::from_utf8_lossy(&found.stderr));
    let flags = String::from_utf8(found.stdout).unwrap();
    let flags: Vec<&str> = flags.split_whitespace().collect();
    examples_run(&flags, Some(("LD_LIBRARY_PATH", &prefix.join("lib"))));
}
