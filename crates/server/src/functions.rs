//! Libraries of functions, which the store keeps for all servers.
//!
//! A library is a text in Lua whose first line names it: `#!lua name=books`. It is run to find the
//! functions that it declares, and again before each of its functions is run: nothing stays.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;

use crate::scripts::{Declared, Scripts, declare};
use crate::store::{Store, StoreError};

/// A library.
#[derive(Clone, Debug)]
pub(crate) struct Library {
    pub(crate) text: Bytes,
    pub(crate) functions: Vec<Declared>,
}

/// Libraries, by their names.
#[derive(Clone, Debug, Default)]
pub(crate) struct Libraries(pub(crate) BTreeMap<String, Library>);

impl Libraries {
    /// A function, and the library that declares it. Its name counts in any case.
    pub(crate) fn function(&self, name: &str) -> Option<(&Library, &Declared)> {
        self.0.values().find_map(|library| {
            let is_it = |function: &&Declared| function.name.eq_ignore_ascii_case(name);
            let function = library.functions.iter().find(is_it)?;
            Some((library, function))
        })
    }

    /// Adds a library; its name.
    ///
    /// # Errors
    /// The error that a client gets.
    pub(crate) fn add(
        &mut self,
        text: &Bytes,
        replace: bool,
        scripts: &Scripts,
    ) -> Result<String, String> {
        let name = name_in(text)?;
        let old = self.0.remove(&name);
        if old.is_some() && !replace {
            return Err(format!("ERR Library '{name}' already exists"));
        }
        let functions = declare(scripts, text)?;
        if functions.is_empty() {
            return Err("ERR No functions registered".to_owned());
        }
        if let Some(taken) = functions.iter().find(|own| self.function(&own.name).is_some()) {
            return Err(format!("ERR Function {} already exists", taken.name));
        }
        self.0.insert(name.clone(), Library { text: text.clone(), functions });
        Ok(name)
    }

    /// The texts, each after its length.
    fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for Library { text, .. } in self.0.values() {
            bytes.extend((text.len() as u32).to_le_bytes());
            bytes.extend(text);
        }
        bytes
    }

    /// A library that cannot be loaded here has no functions.
    fn decode(mut bytes: &[u8], scripts: &Scripts) -> Self {
        let mut libraries = Self::default();
        while let Some((length, rest)) = bytes.split_first_chunk() {
            let length = u32::from_le_bytes(*length) as usize;
            let Some((text, rest)) = rest.split_at_checked(length) else { break };
            if let Ok(name) = name_in(text) {
                let functions = declare(scripts, text).unwrap_or_default();
                let text = Bytes::copy_from_slice(text);
                libraries.0.insert(name, Library { text, functions });
            }
            bytes = rest;
        }
        libraries
    }
}

/// The name of a library, as its first line says.
fn name_in(text: &[u8]) -> Result<String, String> {
    let first = text.split(|&byte| byte == b'\n').next().unwrap_or_default();
    let first = String::from_utf8_lossy(first).into_owned();
    let missing = || "ERR Missing library metadata".to_owned();
    let mut words = first.strip_prefix("#!").ok_or_else(missing)?.split_whitespace();
    let engine = words.next().ok_or_else(missing)?;
    if !engine.eq_ignore_ascii_case("lua") {
        return Err(format!("ERR Engine '{engine}' not found"));
    }
    let mut name = None;
    for word in words {
        match word.split_once('=') {
            Some(("name", _)) if name.is_some() => {
                return Err(
                    "ERR Invalid metadata value, name argument was given multiple times".to_owned()
                );
            }
            Some(("name", given)) => name = Some(given.to_owned()),
            _ => return Err(format!("ERR Invalid metadata value given: {word}")),
        }
    }
    let name = name.ok_or("ERR Library name was not given")?;
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    if name.is_empty() || !name.bytes().all(is_word) {
        return Err("ERR Library names can only contain letters, numbers, or underscores(_) and must be at least one character long".to_owned());
    }
    Ok(name)
}

/// How often a change is tried that meets others'.
const TRIES: usize = 100;

/// The libraries, as this host has seen them last.
#[derive(Debug, Default)]
pub(crate) struct Functions(Mutex<(u64, Arc<Libraries>)>);

impl Functions {
    /// The libraries as they are now.
    ///
    /// # Errors
    /// [`StoreError`].
    pub(crate) fn now(
        &self,
        store: &dyn Store,
        scripts: &Scripts,
    ) -> Result<Arc<Libraries>, StoreError> {
        self.numbered(store, scripts).map(|(_, libraries)| libraries)
    }

    fn numbered(
        &self,
        store: &dyn Store,
        scripts: &Scripts,
    ) -> Result<(u64, Arc<Libraries>), StoreError> {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if store.libraries_version()? != seen.0 {
            let (version, bytes) = store.libraries()?;
            *seen = (version, Arc::new(Libraries::decode(&bytes, scripts)));
        }
        Ok(seen.clone())
    }

    /// Changes the libraries for all servers; the result of `change`, which may run several times.
    ///
    /// # Errors
    /// The error that a client gets.
    pub(crate) fn change<T, E: From<StoreError>>(
        &self,
        store: &dyn Store,
        scripts: &Scripts,
        mut change: impl FnMut(&mut Libraries) -> Result<T, E>,
    ) -> Result<T, E> {
        for _ in 0..TRIES {
            let (version, libraries) = self.numbered(store, scripts)?;
            let mut libraries = Libraries::clone(&libraries);
            let result = change(&mut libraries)?;
            if store.keep_libraries(version, &libraries.encode())? {
                return Ok(result);
            }
        }
        let text = "other hosts change the functions all the time".to_owned();
        Err(StoreError::Unavailable(text).into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn library(name: &str, code: &str) -> Bytes {
        format!("#!lua name={name}\n{code}").into()
    }

    #[test]
    fn libraries_are_read_as_they_were_kept() {
        let (scripts, mut libraries) = (Scripts::default(), Libraries::default());
        let text = library("books", "redis.register_function('read', function() return 1 end)");
        assert_eq!(libraries.add(&text, false, &scripts).as_deref(), Ok("books"));
        let other = library("songs", "redis.register_function('sing', function() end)");
        assert_eq!(libraries.add(&other, false, &scripts).as_deref(), Ok("songs"));
        let read = Libraries::decode(&libraries.encode(), &scripts);
        assert_eq!(read.0.len(), 2);
        assert_eq!(read.function("read").unwrap().0.text, text);
        assert!(read.function("write").is_none());
    }

    #[test]
    fn libraries_that_cannot_be_are_refused() {
        let scripts = Scripts::default();
        let refusal = |text: &[u8]| {
            let text = Bytes::copy_from_slice(text);
            Libraries::default().add(&text, false, &scripts).unwrap_err()
        };
        assert_eq!(refusal(b"return 1"), "ERR Missing library metadata");
        assert_eq!(refusal(b"#!bad name=a\n"), "ERR Engine 'bad' not found");
        assert_eq!(refusal(b"#!lua\n"), "ERR Library name was not given");
        assert!(refusal(b"#!lua name=a-b\n").starts_with("ERR Library names can only"));
        assert_eq!(refusal(b"#!lua name=a\n"), "ERR No functions registered");
        assert!(refusal(b"#!lua name=a\n)").starts_with("ERR Error compiling function: "));
        let early = refusal(b"#!lua name=a\nredis.call('set', 'a', 1)");
        assert!(early.starts_with("ERR Error registering functions: "), "{early}");
        assert!(early.contains("while a library is loaded"), "{early}");
        let twice = "for _ = 1, 2 do redis.register_function('f', function() end) end";
        assert!(refusal(&library("a", twice)).contains("already exists in the library"));
        let flag = "redis.register_function{function_name='f', callback=pcall, flags={'x'}}";
        assert!(refusal(&library("a", flag)).contains("unknown flag given"));
    }
}
