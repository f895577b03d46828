//! Whether a library can be loaded into a program, and where that library is.

use std::env;
use std::ffi::OsString;
use std::fs::{self, File, Metadata};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

/// The file name of the library that is loaded into programs.
pub(super) const LIBRARY: &str = "libtombolo_preload.so";
/// How many bytes of a program are looked at for its kind.
const HEAD_BYTES: u64 = 4096;
/// Interpreters of interpreters that are followed, as the kernel does.
const INTERPRETERS: usize = 4;
const SETUID: u32 = 0o4000;
const SETGID: u32 = 0o2000;

/// The library that is named, or the one that is installed with this command: beside it, in `lib`
/// beside it, or in `lib` beside its folder.
///
/// # Errors
/// Where it was looked for, and how to build it.
pub(super) fn library(named: Option<&Path>) -> Result<PathBuf> {
    let found = match named {
        Some(named) => {
            named.canonicalize().with_context(|| format!("cannot load {}", named.display()))?
        }
        None => installed(&env::current_exe().context("cannot find this command's own file")?)?,
    };
    // The dynamic loader takes these bytes for ends of names.
    if found.as_os_str().as_bytes().iter().any(|byte| b" :".contains(byte)) {
        bail!(
            "{} has a space or a colon in its path, and cannot be loaded; copy it elsewhere, and \
             name the copy by --library",
            found.display()
        );
    }
    Ok(found)
}

/// The library that goes with the command at this path.
fn installed(command: &Path) -> Result<PathBuf> {
    let folder = command.parent().context("this command's own file is in no folder")?;
    let mut folders = vec![folder.to_owned(), folder.join("lib")];
    folders.extend(folder.parent().map(|above| above.join("lib")));
    let place = folders.iter().map(|folder| folder.join(LIBRARY)).find(|place| place.is_file());
    place.with_context(|| {
        let folders: Vec<_> =
            folders.iter().map(|folder| folder.display().to_string()).collect();
        format!(
            "there is no {LIBRARY} in {}; build it by cargo build --release -p tombolo-preload, and \
             copy it there from target/release, or name it by --library",
            folders.join(", ")
        )
    })
}

/// Checks that a library can be loaded into a program. A program that is not found is the system's
/// to complain about.
///
/// # Errors
/// Why not.
pub(super) fn check(program: &Path) -> Result<()> {
    let Some(mut file) = find(program) else { return Ok(()) };
    for _ in 0..=INTERPRETERS {
        let Some(head) = head(&file) else { return Ok(()) };
        if let Some(reason) = obstacle(&file, &head) {
            bail!("{} {reason}", file.display());
        }
        let Some(interpreter) = interpreter(&head) else { return Ok(()) };
        file = interpreter;
    }
    Ok(())
}

/// Where the program is, as a shell finds it.
fn find(program: &Path) -> Option<PathBuf> {
    if program.components().count() > 1 {
        return Some(program.to_owned());
    }
    let folders = env::var_os("PATH")?;
    let is_program = |file: &PathBuf| {
        fs::metadata(file)
            .is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
    };
    env::split_paths(&folders).map(|folder| folder.join(program)).find(is_program)
}

fn head(program: &Path) -> Option<Vec<u8>> {
    let mut head = Vec::new();
    File::open(program).ok()?.take(HEAD_BYTES).read_to_end(&mut head).ok()?;
    Some(head)
}

/// The program that runs a script.
fn interpreter(head: &[u8]) -> Option<PathBuf> {
    let line = head.strip_prefix(b"#!")?.split(|&byte| byte == b'\n').next()?;
    let word = line.split(u8::is_ascii_whitespace).find(|word| !word.is_empty())?;
    Some(PathBuf::from(std::ffi::OsStr::from_bytes(word)))
}

fn obstacle(program: &Path, head: &[u8]) -> Option<&'static str> {
    const INTERPRETER: u64 = 3;
    let metadata = fs::metadata(program).ok()?;
    if changes_user(program, &metadata) && !head.starts_with(b"#!") {
        return Some(
            "runs with the rights of another user, and the system loads nothing into such programs",
        );
    }
    let elf = head.strip_prefix(b"\x7fELF")?;
    if !elf.starts_with(b"\x02\x01") {
        return Some("is a 32-bit program, and the library is a 64-bit one");
    }
    let number = |at: usize, bytes: usize| {
        let found = head.get(at..at + bytes)?;
        Some(found.iter().rev().fold(0u64, |value, byte| value << 8 | u64::from(*byte)))
    };
    let (start, size, count) = (number(32, 8)?, number(54, 2)?, number(56, 2)?);
    let kind = |index: u64| number(usize::try_from(start + index * size).ok()?, 4);
    let is_dynamic = (0..count).any(|index| kind(index) == Some(INTERPRETER));
    (!is_dynamic).then_some("is linked statically, and nothing can be loaded into it")
}

/// Whether the program gets other rights than this process has as it starts.
fn changes_user(program: &Path, metadata: &Metadata) -> bool {
    let (user, group) = (rustix::process::getuid(), rustix::process::getgid());
    let is_set = |bit| metadata.mode() & bit != 0;
    let has_capabilities = || {
        rustix::fs::getxattr(program, "security.capability", &mut [0u8; 64][..])
            .is_ok_and(|bytes| bytes > 0)
    };
    is_set(SETUID) && metadata.uid() != user.as_raw()
        || is_set(SETGID) && metadata.gid() != group.as_raw()
        || !user.is_root() && has_capabilities()
}

/// The library before those that are loaded already.
pub(super) fn with_others(library: PathBuf) -> OsString {
    let mut all = library.into_os_string();
    if let Some(others) = env::var_os("LD_PRELOAD").filter(|others| !others.is_empty()) {
        all.push(":");
        all.push(others);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(bytes: &[u8]) -> Option<String> {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), bytes).unwrap();
        check(file.path()).err().map(|reason| reason.to_string())
    }

    #[test]
    fn what_cannot_be_loaded_into_is_told_apart() {
        assert!(check(&env::current_exe().unwrap()).is_ok());
        // A program without an entry that names a loader.
        let mut elf = vec![0; 64];
        elf[..6].copy_from_slice(b"\x7fELF\x02\x01");
        assert!(refusal(&elf).unwrap().contains("linked statically"));
        elf[4] = 1;
        assert!(refusal(&elf).unwrap().contains("32-bit"));
        assert_eq!(refusal(b"#!/bin/sh\n"), None);
        assert_eq!(refusal(b"#! /no/such/interpreter -x\n"), None);
    }

    #[test]
    fn a_script_is_as_its_interpreter_is() {
        let folder = tempfile::tempdir().unwrap();
        let interpreter = folder.path().join("interpreter");
        fs::write(&interpreter, b"\x7fELF\x01\x01").unwrap();
        let script = format!("#!{} -x\n", interpreter.display());
        assert!(refusal(script.as_bytes()).unwrap().contains("interpreter is a 32-bit"));
        // A script that runs itself is the system's to complain about.
        let circle = folder.path().join("circle");
        fs::write(&circle, format!("#!{}\n", circle.display())).unwrap();
        assert!(check(&circle).is_ok());
    }

    #[test]
    fn a_library_that_is_not_there_can_be_built() {
        let folder = tempfile::Builder::new().prefix("a b").tempdir().unwrap();
        let reason = installed(&folder.path().join("bin/tombolo")).unwrap_err().to_string();
        assert!(reason.contains("cargo build --release -p tombolo-preload"), "{reason}");
        let odd = folder.path().join(LIBRARY);
        fs::write(&odd, "").unwrap();
        let reason = library(Some(&odd)).unwrap_err().to_string();
        assert!(reason.contains("space or a colon"), "{reason}");
        assert!(library(Some(&folder.path().join("none"))).is_err());
    }
}
