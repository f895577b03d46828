//! The folders of this crate are floors: each uses only those below it, and its own.
//!
//! A file refers to another one by a path that begins with `crate`, or by a method of
//! [`Objects`](tombolo_objects::Objects), whose `impl` blocks are spread over the folders. Both are
//! looked for in the text of the files.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// The lowest first.
const FLOORS: [&[&str]; 12] = [
    &["ids", "error", "sites", "sync"],
    &["storage"],
    &["replica"],
    &["host"],
    &["read"],
    &["write"],
    &["transaction"],
    &["placement"],
    // The background work goes on without dead hosts, too.
    &["recovery"],
    &["upkeep"],
    &["lifecycle"],
    &["saved", "api"],
];

#[test]
fn no_folder_refers_to_one_above_it() {
    let crate_ = Crate::read();
    let mut found = BTreeSet::new();
    for file in &crate_.files {
        for name in crate_.upward(file) {
            found.insert((file.path.clone(), name));
        }
    }
    assert!(found.is_empty(), "references from a lower folder to one above it: {found:#?}");
}

#[test]
fn every_kind_of_reference_is_found() {
    let crate_ = Crate::read();
    for (text, name) in [
        ("use crate::write::lock::{Locked, TryLock};", Some("Locked")),
        ("use crate::{Error, Objects, sites};", Some("Objects")),
        ("use super::super::super::write;", Some("super")),
        ("impl<M: Memory> Objects<M> { fn two(&self) { self.put(KEY, &[]) } }", Some("put")),
        ("fn tidy<M: Memory>(objects: &T) { objects.tick() }", Some("tick")),
        ("fn tidy<M: Memory>(guard: &T) { guard.objects().tick() }", Some("tick")),
        ("// As crate::write does.\nuse crate::ids::Slot;\nuse super::super::index;", None),
        ("impl<M: Memory> Space<M> { fn tidy(&self) { self.tick() } }", None),
    ] {
        let found = crate_.upward(&File::new("storage/space/new.rs", text));
        assert!(name.map_or(found.is_empty(), |name| found.contains(name)), "{text}: {found:?}");
    }
}

#[test]
fn no_two_types_have_one_name() {
    let mut defined: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for File { path, tokens, .. } in Crate::read().files {
        let mut depth = 0;
        for pair in tokens.windows(2) {
            depth += i32::from(pair[0] == "{") - i32::from(pair[0] == "}");
            // An item that an `impl` block or a function defines has that one's name before its
            // own.
            let defines = ["struct", "enum", "trait", "type", "union"].contains(&pair[0].as_str());
            if defines && depth == 0 {
                defined.entry(pair[1].clone()).or_default().push(path.clone());
            }
        }
    }
    let twice: Vec<_> = defined.into_iter().filter(|(_, files)| files.len() > 1).collect();
    assert!(twice.is_empty(), "types with one name: {twice:#?}");
}

/// One file, without its comments.
struct File {
    /// From the folder `src` on.
    path: String,
    floor: usize,
    tokens: Vec<String>,
    /// Which tokens are in `impl` blocks of the handle.
    within_objects: Vec<Range<usize>>,
}

impl File {
    fn new(path: &str, text: &str) -> Self {
        let top = path.split(['/', '.']).next().unwrap();
        let floor = floor_of(top).unwrap_or_else(|| panic!("{path} is on no floor"));
        let tokens = tokens(text);
        let within_objects = blocks_of_objects(&tokens);
        Self { path: path.to_owned(), floor, within_objects, tokens }
    }

    /// How many modules it is below the crate's root.
    fn depth(&self) -> usize {
        let names = self.path.trim_end_matches(".rs").split('/');
        names.filter(|name| *name != "mod").count()
    }
}

struct Crate {
    files: Vec<File>,
    /// On which floor the names are defined that the crate's root gives again.
    root: BTreeMap<String, usize>,
    /// On which floor each method of the handle is.
    methods: BTreeMap<String, usize>,
}

impl Crate {
    fn read() -> Self {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        let mut paths = Vec::new();
        find_files(&source, &mut paths);
        let lib = tokens(&fs::read_to_string(source.join("lib.rs")).unwrap());
        let files: Vec<File> = paths
            .iter()
            .filter(|path| !path.ends_with("lib.rs"))
            .map(|path| {
                let within = path.strip_prefix(&source).unwrap().to_str().unwrap();
                File::new(within, &fs::read_to_string(path).unwrap())
            })
            .collect();
        let mut root = BTreeMap::new();
        for (at, _) in lib.iter().enumerate().filter(|(_, token)| *token == "use") {
            for path in paths_at(&lib, at + 1) {
                if let Some(floor) = floor_of(&path[0]) {
                    root.insert(path.last().unwrap().clone(), floor);
                }
            }
        }
        let methods = files.iter().flat_map(|file| {
            let blocks = file.within_objects.iter().flat_map(|block| block.clone());
            let names = blocks.filter(|&at| file.tokens[at - 1] == "fn");
            names.map(|at| (file.tokens[at].clone(), file.floor))
        });
        Self { methods: methods.collect(), root, files }
    }

    /// The items on floors above its own that a file refers to.
    fn upward(&self, file: &File) -> BTreeSet<String> {
        let mut found = BTreeSet::new();
        let tokens = &file.tokens;
        let to_root = ["super", "::"].repeat(file.depth());
        if tokens.windows(to_root.len()).any(|path| path == to_root) {
            found.insert("super".to_owned());
        }
        for (at, token) in tokens.iter().enumerate() {
            if token == "crate" && tokens[at + 1] == "::" {
                for path in paths_at(tokens, at + 2) {
                    let floor = floor_of(&path[0]).or_else(|| self.root.get(&path[0]).copied());
                    if floor.is_some_and(|floor| floor > file.floor) {
                        found.insert(path.last().unwrap().clone());
                    }
                }
            }
            let called = tokens.get(at + 1).is_some_and(|next| next == "(" || next == "::");
            let of_objects = match tokens[..at] {
                [.., ref of, ref dot] if dot == "." || dot == "::" => match of.as_str() {
                    "objects" | "Objects" => true,
                    "self" | "Self" => file.within_objects.iter().any(|block| block.contains(&at)),
                    _ => tokens[..at - 1].ends_with(&["objects", "(", ")"].map(String::from)),
                },
                _ => false,
            };
            if called && of_objects && self.methods.get(token).is_some_and(|&at| at > file.floor) {
                found.insert(token.clone());
            }
        }
        found
    }
}

fn floor_of(module: &str) -> Option<usize> {
    FLOORS.iter().position(|floor| floor.contains(&module))
}

fn find_files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            find_files(&path, found);
        } else {
            found.push(path);
        }
    }
}

/// Names, and what is between them, of a file without comments. Of what is between, `::` is one
/// token, all else one each.
fn tokens(text: &str) -> Vec<String> {
    let mut tokens = Vec::new();
    for line in text.lines() {
        let mut rest = line.split("//").next().unwrap_or_default().trim_start();
        while let Some(first) = rest.chars().next() {
            let name = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
            let length = match name {
                0 if rest.starts_with("::") => 2,
                0 => first.len_utf8(),
                _ => name,
            };
            tokens.push(rest[..length].to_owned());
            rest = rest[length..].trim_start();
        }
    }
    tokens
}

/// All paths that begin at this token, which may end in braces.
fn paths_at(tokens: &[String], at: usize) -> Vec<Vec<String>> {
    fn paths(tokens: &[String], at: &mut usize, before: &[String], found: &mut Vec<Vec<String>>) {
        let mut path = before.to_vec();
        while tokens[*at] != "{" {
            path.push(tokens[*at].clone());
            *at += 1;
            if tokens.get(*at).is_none_or(|next| next != "::") {
                found.push(path);
                return;
            }
            *at += 1;
        }
        while tokens[*at] != "}" {
            *at += 1;
            if tokens[*at] != "}" {
                paths(tokens, at, &path, found);
            }
        }
        *at += 1;
    }
    let mut found = Vec::new();
    paths(tokens, &mut at.clone(), &[], &mut found);
    found
}

/// The `impl` blocks of the handle.
fn blocks_of_objects(tokens: &[String]) -> Vec<Range<usize>> {
    let head = ["impl", "<", "M", ":", "Memory", ">", "Objects", "<", "M", ">", "{"];
    let starts = (0..tokens.len()).filter(|&at| tokens[at..].iter().take(head.len()).eq(head));
    let end = |start: usize| {
        let mut depth = 0;
        let ends = |token: &String| {
            depth += i32::from(token == "{") - i32::from(token == "}");
            depth == 0
        };
        start + tokens[start..].iter().position(ends).expect("braces match")
    };
    starts.map(|at| at + head.len()..end(at + head.len() - 1)).collect()
}
