//! How people name memory: `/dev/dax0.0`, `/dev/shm/pod,size=1GiB,huge`, `anon:,size=64MiB`.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use bytesize::ByteSize;

use crate::MemoryError;

/// Names one piece of memory, and says how to map it.
///
/// `PATH[,size=SIZE][,offset=SIZE][,huge][,numa=NODE]`, where `PATH` is a file in tmpfs, hugetlbfs
/// or famfs, a DAX device, or a PCI BAR's `resourceN` file; or `anon:` instead of a path, for
/// memory that only this process has. Sizes are written `200MiB`, `1.5GiB`, `4096`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemorySpec {
    /// Where the memory is.
    pub source: Source,
    /// How many bytes of it, if not all there are.
    pub bytes: Option<u64>,
    /// Where in the file or device to start, in bytes.
    pub offset: u64,
    /// Ask for huge pages.
    pub huge: bool,
    /// Take pages from this NUMA node.
    pub numa: Option<u32>,
}

/// Where memory comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// A file or device.
    Path(PathBuf),
    /// Fresh memory of this process.
    Anonymous,
}

impl MemorySpec {
    /// All of the file or device at `path`.
    pub fn path(path: impl Into<PathBuf>) -> Self {
        Self { source: Source::Path(path.into()), ..Self::anonymous(0) }
    }

    /// `bytes` bytes that only this process has.
    pub fn anonymous(bytes: u64) -> Self {
        Self {
            source: Source::Anonymous,
            bytes: (bytes > 0).then_some(bytes),
            offset: 0,
            huge: false,
            numa: None,
        }
    }
}

impl FromStr for MemorySpec {
    type Err = MemoryError;

    fn from_str(text: &str) -> Result<Self, MemoryError> {
        let wrong = |reason: String| MemoryError::Spec { spec: text.to_owned(), reason };
        let mut parts = text.split(',');
        let mut spec = match parts.next().unwrap_or_default() {
            "" => return Err(wrong("it names no file or device".to_owned())),
            "anon:" => Self::anonymous(0),
            path => Self::path(path),
        };
        for part in parts {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            let size = || parse_size(value).map_err(|reason| wrong(format!("{name}: {reason}")));
            match name {
                "size" => spec.bytes = Some(size()?),
                "offset" => spec.offset = size()?,
                "huge" if value.is_empty() => spec.huge = true,
                "numa" => {
                    let node = value.parse().ok().filter(|&node| node < 1024);
                    spec.numa = Some(node.ok_or_else(|| {
                        wrong(format!("numa: {value:?} is not the number of a node"))
                    })?);
                }
                _ => {
                    return Err(wrong(format!(
                        "{part:?} is not one of size=SIZE, offset=SIZE, huge, numa=NODE"
                    )));
                }
            }
        }
        Ok(spec)
    }
}

impl fmt::Display for MemorySpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.source {
            Source::Path(path) => write!(f, "{}", path.display())?,
            Source::Anonymous => write!(f, "anon:")?,
        }
        if let Some(bytes) = self.bytes {
            write!(f, ",size={bytes}")?;
        }
        if self.offset > 0 {
            write!(f, ",offset={}", self.offset)?;
        }
        if self.huge {
            write!(f, ",huge")?;
        }
        if let Some(node) = self.numa {
            write!(f, ",numa={node}")?;
        }
        Ok(())
    }
}

/// A size as people write it: `4096`, `64KiB`, `200MiB`, `1.5GiB`, `1GB`, `2T`. Without `i`, units
/// are powers of ten.
///
/// # Errors
/// A clause that says what is accepted.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let size = text.trim().parse::<ByteSize>().map_err(|_| {
        format!("{text:?} is not a size; write a number and a unit, such as 200MiB or 1.5GiB")
    })?;
    if size.as_u64() == 0 {
        return Err(format!("{text:?} is no memory at all; write a size such as 200MiB"));
    }
    if size.as_u64() > 1 << 50 {
        return Err(format!("{text:?} is over the limit of 1PiB"));
    }
    Ok(size.as_u64())
}

/// A number of bytes as people read it: `1.5 GiB`.
pub fn format_size(bytes: u64) -> String {
    ByteSize(bytes).display().iec().to_string()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn reads_what_people_write() {
        let spec: MemorySpec = "/dev/shm/pod,size=1.5GiB,offset=2MiB,huge,numa=1".parse().unwrap();
        assert_eq!(spec.source, Source::Path("/dev/shm/pod".into()));
        assert_eq!(spec.bytes, Some(3 << 29));
        assert_eq!((spec.offset, spec.huge, spec.numa), (2 << 20, true, Some(1)));
        assert_eq!("anon:".parse::<MemorySpec>().unwrap(), MemorySpec::anonymous(0));
        assert_eq!(parse_size("4096"), Ok(4096));
        assert_eq!(parse_size(" 64 KiB"), Ok(65536));
        assert_eq!(parse_size("1GB"), Ok(1_000_000_000));
    }

    #[test]
    fn says_what_is_wrong() {
        let error = |text: &str| text.parse::<MemorySpec>().unwrap_err().to_string();
        assert!(error("").contains("names no file"));
        assert!(error("/x,size=12parsecs").contains("is not a size"));
        assert!(error("/x,size=0").contains("no memory"));
        assert!(error("/x,sise=1MiB").contains("is not one of"));
        assert!(error("/x,numa=four").contains("number of a node"));
        assert!(parse_size("-1MiB").is_err());
        assert!(parse_size("99999999999PiB").is_err());
    }

    proptest! {
        #[test]
        fn written_specs_read_back(
            path in "/[a-z0-9/._-]{1,20}",
            bytes in proptest::option::of(1u64..1 << 50),
            offset in 0u64..1 << 50,
            huge: bool,
            numa in proptest::option::of(0u32..1024),
        ) {
            let spec = MemorySpec { source: Source::Path(path.into()), bytes, offset, huge, numa };
            prop_assert_eq!(spec.to_string().parse::<MemorySpec>().unwrap(), spec);
        }

        #[test]
        fn no_text_panics(text: String) {
            let _ = text.parse::<MemorySpec>();
        }
    }
}
