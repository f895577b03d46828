//! The file or device behind a piece of memory: its size, its pages, and who uses it.
//!
//! Users of a backing hold its advisory lock (`flock`): shared while they use it, exclusive while
//! they create it. The kernel drops it with the process, however that dies. It tells processes of
//! one machine apart; hosts of other machines don't see it.

use std::fs::{File, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{FallocateFlags, FlockOperation};
use rustix::io::Errno;

use crate::demand::Demand;
use crate::life::LifeLocks;
use crate::region::{Access, Region};
use crate::spec::Source;
use crate::{MemoryError, MemorySpec};

const HUGETLBFS_MAGIC: u64 = 0x958458f6;
const SYSFS_MAGIC: u64 = 0x62656572;
const TMPFS_MAGIC: u64 = 0x01021994;

/// File systems whose files no other machine can have. Of all others that is not known.
const LOCAL_MAGICS: [u64; 7] = [
    0x858458f6, // ramfs
    0xef53,     // ext2, ext3, ext4
    0x58465342, // XFS
    0x9123683e, // Btrfs
    0xf2f52010, // F2FS
    0x2fc12fc1, // ZFS
    0x794c7630, // overlay
];

/// An open file or device, or a promise of anonymous memory.
#[derive(Debug)]
pub struct Backing {
    spec: MemorySpec,
    file: Option<Arc<File>>,
    kind: Kind,
    access: Access,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Has no bytes until it is mapped.
    Anonymous,
    /// A file that can be given any size that is a multiple of `page` bytes; `local` if no other
    /// machine can have it.
    File { page: u64, local: bool, system: System },
    /// A device of `bytes` bytes, to be mapped in multiples of `page`.
    Device { bytes: u64, page: u64 },
}

/// The file system that a file is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum System {
    /// hugetlbfs.
    HugePages,
    /// tmpfs.
    SharedMemory,
    Other,
}

/// Whether there has to be room for all that may ever be put into new memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Room {
    /// There has to be, when the memory is made.
    #[default]
    Checked,
    /// It may come later, or never.
    Unchecked,
}

impl Backing {
    /// Opens what `spec` names; it has to exist.
    ///
    /// # Errors
    /// [`MemoryError`].
    pub fn open(spec: &MemorySpec) -> Result<Self, MemoryError> {
        Self::open_with(spec, OpenOptions::new().read(true).write(true), Access::Write)
    }

    /// Opens what `spec` names, only to be looked at: a store to what is mapped ends the process.
    ///
    /// # Errors
    /// [`MemoryError`].
    pub fn open_to_look(spec: &MemorySpec) -> Result<Self, MemoryError> {
        Self::open_with(spec, OpenOptions::new().read(true), Access::Read)
    }

    /// Opens what `spec` names, creating the file if there is none, readable and writable by its
    /// owner alone; the second value says whether it was.
    ///
    /// # Errors
    /// [`MemoryError`].
    pub fn open_or_create(spec: &MemorySpec) -> Result<(Self, bool), MemoryError> {
        if is_device_name(spec) {
            return Ok((Self::open(spec)?, false));
        }
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true).mode(0o600);
        match Self::open_with(spec, &options, Access::Write) {
            Err(MemoryError::Os { reason, .. })
                if reason.kind() == io::ErrorKind::AlreadyExists =>
            {
                Ok((Self::open(spec)?, false))
            }
            created => Ok((created?, true)),
        }
    }

    fn open_with(
        spec: &MemorySpec,
        options: &OpenOptions,
        access: Access,
    ) -> Result<Self, MemoryError> {
        let Source::Path(path) = &spec.source else {
            return Ok(Self { spec: spec.clone(), file: None, kind: Kind::Anonymous, access });
        };
        let file = options.open(path).map_err(|reason| match path.metadata() {
            Ok(found) if found.is_dir() => {
                MemoryError::NotMemory { path: path.display().to_string(), what: "a directory" }
            }
            _ => MemoryError::Os { doing: "open", path: path.display().to_string(), reason },
        })?;
        let kind = Kind::of(&file, path, Path::new("/sys"))?;
        let backing = Self { spec: spec.clone(), file: Some(Arc::new(file)), kind, access };
        let page = backing.page_bytes();
        if !spec.offset.is_multiple_of(page) {
            let (path, offset) = (backing.name(), spec.offset);
            return Err(MemoryError::Unaligned { path, offset, page });
        }
        Ok(backing)
    }

    /// The spec it was opened by.
    pub fn spec(&self) -> &MemorySpec {
        &self.spec
    }

    /// The path, for messages.
    pub fn name(&self) -> String {
        match &self.spec.source {
            Source::Path(path) => path.display().to_string(),
            Source::Anonymous => "anonymous memory".to_owned(),
        }
    }

    /// The file, if it is one and no device.
    pub fn file_path(&self) -> Option<&Path> {
        match (&self.spec.source, self.kind) {
            (Source::Path(path), Kind::File { .. }) => Some(path),
            _ => None,
        }
    }

    /// Whether it is known that hosts of other machines cannot have it, so that the lock tells all
    /// users.
    pub fn is_local(&self) -> bool {
        !matches!(self.kind, Kind::File { local: false, .. } | Kind::Device { .. })
    }

    /// How many bytes there are behind the spec's offset, and not beyond its size.
    ///
    /// # Errors
    /// [`MemoryError::Os`].
    pub fn bytes(&self) -> Result<u64, MemoryError> {
        let whole = match (&self.file, self.kind) {
            (_, Kind::Device { bytes, .. }) => bytes,
            (Some(file), _) => file.metadata().map_err(|e| self.os("look at", e))?.len(),
            (None, _) => self.spec.bytes.unwrap_or(0),
        };
        let behind = whole.saturating_sub(self.spec.offset);
        Ok(self.spec.bytes.map_or(behind, |bytes| bytes.min(behind)))
    }

    /// Whether the file has been removed since it was opened.
    ///
    /// # Errors
    /// [`MemoryError::Os`].
    pub fn is_removed(&self) -> Result<bool, MemoryError> {
        let Some(file) = &self.file else { return Ok(false) };
        Ok(file.metadata().map_err(|e| self.os("look at", e))?.nlink() == 0)
    }

    /// Size of the pages it is mapped in, in bytes.
    pub fn page_bytes(&self) -> u64 {
        match self.kind {
            Kind::Anonymous => rustix::param::page_size() as u64,
            Kind::File { page, .. } | Kind::Device { page, .. } => page,
        }
    }

    /// Takes the lock for oneself; `false` if somebody else has it.
    ///
    /// # Errors
    /// [`MemoryError::Os`].
    pub fn try_lock_exclusive(&self) -> Result<bool, MemoryError> {
        self.lock(FlockOperation::NonBlockingLockExclusive)
    }

    /// Takes the lock together with others, instead of whatever was held; `false` if somebody has
    /// it for themselves.
    ///
    /// # Errors
    /// [`MemoryError::Os`].
    pub fn try_lock_shared(&self) -> Result<bool, MemoryError> {
        self.lock(FlockOperation::NonBlockingLockShared)
    }

    fn lock(&self, operation: FlockOperation) -> Result<bool, MemoryError> {
        let Some(file) = &self.file else { return Ok(true) };
        match rustix::fs::flock(file, operation) {
            Ok(()) => Ok(true),
            Err(Errno::WOULDBLOCK) => Ok(false),
            Err(errno) => Err(self.os("lock", errno.into())),
        }
    }

    /// Makes `bytes` bytes of zeros of a file, rounded up to whole pages, or checks that a device
    /// has as many.
    ///
    /// Room is really taken, so that a full device shows here and not as a fault at some later
    /// store.
    ///
    /// # Errors
    /// [`MemoryError::Os`], [`MemoryError::TooSmall`].
    pub fn reserve(&mut self, bytes: u64) -> Result<(), MemoryError> {
        self.reserve_but(bytes, &[], Room::Checked)
    }

    /// The same, but no room is taken for what lies in `later`, ranges in ascending order that do
    /// not overlap. The user of the memory [populates](crate::Memory::populate) it before it is
    /// written. Where that cannot be, room is taken for all.
    ///
    /// # Errors
    /// As of [`reserve`](Self::reserve).
    pub fn reserve_but(
        &mut self,
        bytes: u64,
        later: &[Range<u64>],
        room: Room,
    ) -> Result<(), MemoryError> {
        let bytes = bytes.next_multiple_of(self.page_bytes());
        match (&self.file, self.kind) {
            (Some(file), Kind::File { .. }) => {
                if self.spec.offset == 0 {
                    rustix::fs::ftruncate(file, 0).map_err(|e| self.os("empty", e.into()))?;
                }
                let later = if self.demand() == Demand::Never { &[] } else { later };
                if room == Room::Checked || later.is_empty() {
                    self.check_room(file, bytes)?;
                }
                self.reserve_now(file, bytes, later)
            }
            (_, Kind::Device { .. }) => self.check_holds(bytes, "ask for less"),
            (None, _) => {
                self.spec.bytes = Some(bytes);
                Ok(())
            }
            (Some(_), Kind::Anonymous) => unreachable!("anonymous memory has no file"),
        }
    }

    /// Gives the file its size, and takes room for all but what comes later.
    fn reserve_now(
        &self,
        file: &Arc<File>,
        bytes: u64,
        later: &[Range<u64>],
    ) -> Result<(), MemoryError> {
        let failed = |reason: io::Error| self.os("make room in", reason);
        let (have, offset) = (self.bytes()?, self.spec.offset);
        if have < bytes {
            rustix::fs::ftruncate(file, offset + bytes).map_err(|errno| failed(errno.into()))?;
        }
        if self.demand() == Demand::Never {
            let all = FallocateFlags::empty();
            let taken = rustix::fs::fallocate(file, all, offset, bytes);
            return taken.map_err(|errno| failed(errno.into()));
        }
        let page = self.page_bytes();
        let region = Region::map(Some(file.clone()), offset, bytes, bytes, page, self.access);
        let region = region.map_err(failed)?.on_demand(match have {
            0 => self.demand(),
            // Others may use the pages that are there.
            _ => Demand::Pages,
        });
        if let Some(node) = self.spec.numa {
            region.bind(node).map_err(|reason| self.os("use that NUMA node for", reason))?;
        }
        let mut at = 0;
        for later in later.iter().chain([&(bytes..bytes)]) {
            if at < later.start.min(bytes) {
                region.populate(at..later.start.min(bytes)).map_err(failed)?;
            }
            at = at.max(later.end);
        }
        Ok(())
    }

    /// How memory comes to be behind its pages.
    fn demand(&self) -> Demand {
        match self.kind {
            Kind::File { system: System::SharedMemory, .. } => Demand::HugePages,
            Kind::File { system: System::Other, .. } => Demand::Pages,
            Kind::File { .. } | Kind::Anonymous | Kind::Device { .. } => Demand::Never,
        }
    }

    /// Taking room page by page until there is none would take all memory, where the file is in
    /// memory.
    fn check_room(&self, file: &Arc<File>, bytes: u64) -> Result<(), MemoryError> {
        let failed = |errno: Errno| self.os("make room in", errno.into());
        let there = rustix::fs::fstatfs(file).map_err(failed)?;
        let taken = rustix::fs::fstat(file).map_err(failed)?.st_blocks as u64 * 512;
        let free = there.f_bavail.saturating_mul(there.f_bsize as u64).saturating_add(taken);
        // Some file systems do not say.
        if there.f_blocks > 0 && free < bytes { Err(failed(Errno::NOSPC)) } else { Ok(()) }
    }

    /// That there are `need` bytes.
    ///
    /// # Errors
    /// [`MemoryError::TooSmall`] with `advice`.
    pub fn check_holds(&self, need: u64, advice: &'static str) -> Result<(), MemoryError> {
        let have = self.bytes()?;
        if have < need {
            return Err(MemoryError::TooSmall { path: self.name(), have, need, advice });
        }
        Ok(())
    }

    /// Maps the first `bytes` bytes. The mapping keeps the file open, and with it the lock.
    ///
    /// # Errors
    /// [`MemoryError::TooSmall`], [`MemoryError::Os`].
    pub fn map(&self, bytes: u64) -> Result<Region, MemoryError> {
        self.check_holds(bytes, "it was cut off, or is another one")?;
        let mapped = bytes.next_multiple_of(self.page_bytes());
        let (file, offset, page) = (self.file.clone(), self.spec.offset, self.page_bytes());
        let region = Region::map(file, offset, mapped, bytes, page, self.access)
            .map_err(|reason| self.os("map", reason))?
            .on_demand(self.demand());
        if self.spec.huge {
            region.use_huge_pages().map_err(|reason| self.os("use huge pages for", reason))?;
        }
        if let Some(node) = self.spec.numa {
            region.bind(node).map_err(|reason| self.os("use that NUMA node for", reason))?;
        }
        Ok(region)
    }

    /// Locks by which those who use it know of each other that they live; `None` if it is no file.
    pub(crate) fn life_locks(&self) -> Option<LifeLocks> {
        let Source::Path(path) = &self.spec.source else { return None };
        LifeLocks::new(self.file.clone()?, path, self.spec.offset)
    }

    /// The size that the spec or the device gives it, or that the file has.
    ///
    /// # Errors
    /// [`MemoryError::NoSize`] if there is none, [`MemoryError::Os`].
    pub fn natural_bytes(&self) -> Result<u64, MemoryError> {
        match (self.spec.bytes, self.kind) {
            (Some(bytes), Kind::File { .. } | Kind::Anonymous) => Ok(bytes),
            _ => Some(self.bytes()?)
                .filter(|&bytes| bytes > 0)
                .ok_or_else(|| MemoryError::NoSize { path: self.name() }),
        }
    }

    fn os(&self, doing: &'static str, reason: io::Error) -> MemoryError {
        MemoryError::Os { doing, path: self.name(), reason }
    }
}

/// Whether a spec names something in the folder of devices, where nobody wants a file.
fn is_device_name(spec: &MemorySpec) -> bool {
    let Source::Path(path) = &spec.source else { return false };
    path.parent()
        .and_then(|folder| folder.canonicalize().ok())
        .is_some_and(|f| f == Path::new("/dev"))
}

impl Kind {
    /// The kind of `file`; `sysfs` is where the kernel describes devices.
    fn of(file: &File, path: &Path, sysfs: &Path) -> Result<Self, MemoryError> {
        let os =
            |reason| MemoryError::Os { doing: "look at", path: path.display().to_string(), reason };
        let metadata = file.metadata().map_err(os)?;
        let page = rustix::param::page_size() as u64;
        if metadata.file_type().is_char_device() {
            return Self::of_dax(metadata.rdev(), sysfs).ok_or_else(|| MemoryError::NotMemory {
                path: path.display().to_string(),
                what: "a device that is not DAX",
            });
        }
        if !metadata.is_file() {
            let path = path.display().to_string();
            return Err(MemoryError::NotMemory { path, what: "something else" });
        }
        let system = rustix::fs::fstatfs(file).map_err(|e| os(e.into()))?;
        Ok(match system.f_type as u64 {
            HUGETLBFS_MAGIC => {
                Self::File { page: system.f_bsize as u64, local: true, system: System::HugePages }
            }
            // A PCI BAR: its size is the hardware's.
            SYSFS_MAGIC => Self::Device { bytes: metadata.len(), page },
            TMPFS_MAGIC => Self::File { page, local: true, system: System::SharedMemory },
            magic => {
                let local = LOCAL_MAGICS.contains(&magic);
                Self::File { page, local, system: System::Other }
            }
        })
    }

    /// A DAX device by its number, as the kernel describes it.
    fn of_dax(device: u64, sysfs: &Path) -> Option<Self> {
        let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
        let folder = sysfs.join(format!("dev/char/{major}:{minor}"));
        let number = |name: &str| -> Option<u64> {
            std::fs::read_to_string(folder.join(name)).ok()?.trim().parse().ok()
        };
        Some(Self::Device { bytes: number("size")?, page: number("align").unwrap_or(2 << 20) })
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::{Lines, LnrAddr, Mapped, Memory, Window};

    fn spec_in(folder: &tempfile::TempDir) -> MemorySpec {
        MemorySpec::path(folder.path().join("memory"))
    }

    #[test]
    fn a_new_file_is_private_and_has_its_room() {
        let folder = tempfile::tempdir().unwrap();
        let spec = spec_in(&folder);
        let (mut backing, created) = Backing::open_or_create(&spec).unwrap();
        assert!(created);
        backing.reserve(1 << 20).unwrap();
        assert_eq!(backing.bytes().unwrap(), 1 << 20);
        let metadata = std::fs::metadata(folder.path().join("memory")).unwrap();
        assert_eq!(metadata.permissions().mode() & 0o777, 0o600);
        assert!(metadata.blocks() * 512 >= 1 << 20, "the room is taken, not promised");
        assert!(!Backing::open_or_create(&spec).unwrap().1);
    }

    #[test]
    fn memory_comes_when_it_is_asked_for_and_goes() {
        const MIB: u64 = 1 << 20;
        for (folder, tells) in
            [(tempfile::tempdir(), false), (tempfile::tempdir_in("/dev/shm"), true)]
        {
            // A file system on a disk may take room that was reserved, and not written, for holes.
            let folder = folder.unwrap();
            let (mut backing, _) = Backing::open_or_create(&spec_in(&folder)).unwrap();
            let on_demand = MIB..60 * MIB;
            backing.reserve_but(64 * MIB, std::slice::from_ref(&on_demand), Room::Checked).unwrap();
            let region = Arc::new(backing.map(64 * MIB).unwrap());
            let taken = || region.taken_bytes().unwrap();
            let before = taken();
            assert!((5 * MIB..16 * MIB).contains(&before), "{before}");
            assert!(!tells || region.has_memory(61 * MIB, 1));
            assert!(!region.has_memory(30 * MIB, 8 * MIB));
            let window = Window::new(region.clone(), 0, 64 * MIB);
            let lines = Lines::covering(LnrAddr::new(20 * MIB), 8 * MIB);
            let memory = Mapped::new(Window::new(region.clone(), 0, 64), window);
            assert!(memory.populate(lines));
            assert!(taken() >= before + 8 * MIB);
            assert!(!tells || region.has_memory(20 * MIB, 1));
            memory.write(lines.start(), b"there");
            assert!(memory.discard(lines));
            assert!(taken() < before + 8 * MIB && !region.has_memory(20 * MIB, 8 * MIB));
            let mut bytes = [1; 5];
            memory.read(lines.start(), &mut bytes);
            assert_eq!(bytes, [0; 5]);
        }
    }

    #[test]
    fn one_user_alone_or_several_together() {
        let folder = tempfile::tempdir().unwrap();
        let spec = spec_in(&folder);
        let (first, _) = Backing::open_or_create(&spec).unwrap();
        let second = Backing::open(&spec).unwrap();
        assert!(first.try_lock_exclusive().unwrap());
        assert!(!second.try_lock_shared().unwrap());
        assert!(first.try_lock_shared().unwrap());
        assert!(second.try_lock_shared().unwrap());
        assert!(!second.try_lock_exclusive().unwrap());
        drop(first);
        assert!(second.try_lock_exclusive().unwrap());
    }

    #[test]
    fn the_mapping_keeps_the_lock() {
        let folder = tempfile::tempdir().unwrap();
        let spec = spec_in(&folder);
        let (mut first, _) = Backing::open_or_create(&spec).unwrap();
        first.reserve(4096).unwrap();
        assert!(first.try_lock_shared().unwrap());
        let region = first.map(4096).unwrap();
        drop(first);
        let second = Backing::open(&spec).unwrap();
        assert!(!second.try_lock_exclusive().unwrap());
        drop(region);
        assert!(second.try_lock_exclusive().unwrap());
    }

    #[test]
    fn a_dax_device_is_as_the_kernel_describes_it() {
        let sysfs = tempfile::tempdir().unwrap();
        let folder = sysfs.path().join("dev/char/252:7");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("size"), "17179869184\n").unwrap();
        std::fs::write(folder.join("align"), "1073741824\n").unwrap();
        let device = rustix::fs::makedev(252, 7);
        let expected = Kind::Device { bytes: 16 << 30, page: 1 << 30 };
        assert_eq!(Kind::of_dax(device, sysfs.path()), Some(expected));
        assert_eq!(Kind::of_dax(rustix::fs::makedev(1, 3), sysfs.path()), None);
    }

    #[test]
    fn refuses_what_is_not_memory() {
        let folder = tempfile::tempdir().unwrap();
        let open = |path: &Path| Backing::open(&MemorySpec::path(path)).unwrap_err().to_string();
        assert!(open(folder.path()).contains("a directory"));
        assert!(open(Path::new("/dev/null")).contains("not DAX"));
        assert!(open(&folder.path().join("absent")).contains("create it first"));
    }

    /// A device that is not there became a file, in memory and in the way of the device.
    #[test]
    fn no_file_is_made_among_the_devices() {
        let spec = MemorySpec::path("/dev/dax9.9");
        assert!(Backing::open_or_create(&spec).is_err());
        assert!(!Path::new("/dev/dax9.9").exists());
    }

    #[test]
    fn offsets_keep_to_pages() {
        let folder = tempfile::tempdir().unwrap();
        let spec = spec_in(&folder);
        let (mut backing, _) = Backing::open_or_create(&spec).unwrap();
        backing.reserve(5000).unwrap();
        let odd = MemorySpec { offset: 100, ..spec.clone() };
        assert!(matches!(Backing::open(&odd), Err(MemoryError::Unaligned { .. })));
        let second_page = MemorySpec { offset: 4096, ..spec };
        assert_eq!(Backing::open(&second_page).unwrap().bytes().unwrap(), 4096);
    }
}
