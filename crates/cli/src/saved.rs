//! `tombolo pod save` and `tombolo pod load`.

use std::fs::{self, File};
use std::io::{self, IsTerminal, Seek, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use indicatif::ProgressDrawTarget;
use serde::Serialize;
use tempfile::NamedTempFile;
use tombolo::saved::{Contents, Existing, SavedFile, check_pod};
use tombolo::{ObjectArea, Objects, Options, PodSpec, format_size};
use tombolo_memory::Source;

use crate::cli::{self, LoadFileArgs, SaveArgs};
use crate::output::{pairs, print, print_aside, progress};
use crate::stop::Stop;

const OBJECTS: &str = "{prefix} {bar:30} {human_pos} of {human_len} objects, {elapsed}";
const BYTES: &str = "{prefix} {bar:30} {bytes} of {total_bytes}, {elapsed}";

#[derive(Serialize)]
struct Saved {
    spec: String,
    uuid: String,
    file: PathBuf,
    objects: u64,
    /// Of their keys and values.
    bytes: u64,
    file_bytes: u64,
    /// Objects that are not in the file because their values are lost.
    lost: u64,
    seconds: f64,
}

impl Saved {
    fn new(args: &SaveArgs, contents: &Contents, file_bytes: u64, started: Instant) -> Self {
        Self {
            spec: args.spec.to_string(),
            uuid: contents.pod.to_string(),
            file: args.file.clone(),
            objects: contents.saved.objects,
            bytes: contents.saved.bytes,
            file_bytes,
            lost: contents.lost,
            seconds: started.elapsed().as_secs_f64(),
        }
    }

    fn text(&self) -> String {
        let mut rows = vec![
            ("saved", format!("{} objects of {}", self.objects, format_size(self.bytes))),
            ("of pod", self.uuid.clone()),
            ("to", format!("{}, {}", self.file.display(), format_size(self.file_bytes))),
            ("in", format!("{:.1} s", self.seconds)),
        ];
        if self.lost > 0 {
            let lost = format!("{} objects, whose values went with a host", self.lost);
            rows.push(("not saved", lost));
        }
        pairs(&rows)
    }
}

pub(crate) fn save(args: &SaveArgs) -> Result<()> {
    let started = Instant::now();
    if is_stream(&args.file) {
        let output = std::io::stdout();
        ensure!(
            !output.is_terminal(),
            "the standard output is a terminal; redirect it, or name a file"
        );
        let (objects, mut counted) = (Joined::new(&args.spec)?, Counted { output, bytes: 0 });
        let contents = objects.save(args, &mut counted)?;
        counted.output.flush().context("cannot write to the standard output")?;
        objects.pod.leave()?;
        let report = Saved::new(args, &contents, counted.bytes, started);
        return print_aside(&report, args.format, Saved::text);
    }
    let place = Place::new(args)?;
    let objects = Joined::new(&args.spec)?;
    let mut temporary = place.temporary()?;
    let contents = objects.save(args, temporary.as_file_mut())?;
    let file_bytes = place.put(temporary)?;
    objects.pod.leave()?;
    print(&Saved::new(args, &contents, file_bytes, started), args.format, Saved::text)
}

/// Whether `-` was given for a file: the standard input or output.
fn is_stream(file: &Path) -> bool {
    file == Path::new("-")
}

/// A stream, and how many bytes went there.
struct Counted<W> {
    output: W,
    bytes: u64,
}

impl<W: Write> Write for Counted<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.output.write(bytes)?;
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.output.flush()
    }
}

/// A pod that is left in good order whatever happens, also if the process is told to stop.
struct Joined {
    pod: Objects,
    stop: Stop,
}

impl Joined {
    fn new(spec: &PodSpec) -> Result<Self> {
        let pod = tombolo_pod::open(spec)?;
        check_pod(&ObjectArea::first(&pod)?).with_context(|| spec.to_string())?;
        let stop = Stop::on_signals()?;
        Ok(Self { pod: Objects::join_pod(pod, Options::default())?, stop })
    }

    fn save(&self, args: &SaveArgs, out: impl Write) -> Result<Contents> {
        let bar = progress("saving", self.pod.object_count()?, OBJECTS);
        let saved = self.pod.save(out, |saved| {
            bar.set_position(saved.objects);
            self.goes_on()
        });
        bar.finish_and_clear();
        saved.with_context(|| format!("{} is not saved", args.spec))
    }

    fn goes_on(&self) -> bool {
        !self.stop.within(Duration::ZERO)
    }
}

/// Where a saved pod comes to be.
struct Place {
    file: PathBuf,
    folder: PathBuf,
    force: bool,
}

impl Place {
    /// Errors of the file are told before anything is done.
    fn new(args: &SaveArgs) -> Result<Self> {
        let name = args.file.display();
        let is_there = args.file.symlink_metadata().is_ok();
        ensure!(args.force || !is_there, "{name} is there already; --force replaces it");
        let file = if is_there { fs::canonicalize(&args.file) } else { Ok(args.file.clone()) };
        let file = file.with_context(|| format!("cannot find {name}"))?;
        if is_there {
            ensure!(file.is_file(), "{name} is no regular file; choose another name");
            ensure!(
                !is_of_pod(&file, &args.spec)?,
                "{name} is the pod itself; choose another name"
            );
        }
        let folder = match file.parent() {
            Some(folder) if folder != Path::new("") => folder.to_owned(),
            Some(_) => PathBuf::from("."),
            None => bail!("{name} is no name of a file"),
        };
        Ok(Self { file, folder, force: args.force })
    }

    fn temporary(&self) -> Result<NamedTempFile> {
        NamedTempFile::with_prefix_in(".tombolo-save-", &self.folder)
            .with_context(|| format!("cannot write in {}", self.folder.display()))
    }

    /// Puts what is in `temporary` there, once it is on disk; how many bytes that are.
    fn put(&self, temporary: NamedTempFile) -> Result<u64> {
        let name = self.file.display();
        temporary.as_file().sync_all().with_context(|| format!("cannot write {name}"))?;
        let put = if self.force {
            temporary.persist(&self.file)
        } else {
            temporary.persist_noclobber(&self.file)
        };
        let file = put
            .map_err(|refused| refused.error)
            .with_context(|| format!("cannot create {name}"))?;
        let folder = File::open(&self.folder).and_then(|folder| folder.sync_all());
        folder.with_context(|| format!("cannot write {}", self.folder.display()))?;
        Ok(file.metadata()?.len())
    }
}

/// Whether a file is the memory of a pod, or a part of it.
fn is_of_pod(file: &Path, spec: &PodSpec) -> Result<bool> {
    let identity = |path: &Path| fs::metadata(path).map(|found| (found.dev(), found.ino()));
    let here = identity(file).with_context(|| format!("cannot look at {}", file.display()))?;
    let mut memories = [Some(&spec.scr), spec.lnr.as_ref()].into_iter().flatten();
    Ok(memories.any(|memory| match &memory.source {
        Source::Path(path) => identity(path).is_ok_and(|there| there == here),
        Source::Anonymous => false,
    }))
}

impl From<cli::Existing> for Existing {
    fn from(existing: cli::Existing) -> Self {
        match existing {
            cli::Existing::Fail => Self::Fail,
            cli::Existing::Keep => Self::Keep,
            cli::Existing::Replace => Self::Replace,
        }
    }
}

#[derive(Serialize)]
struct Loaded {
    spec: String,
    file: PathBuf,
    /// The pod that was saved.
    uuid: String,
    /// The objects that were created or replaced.
    objects: u64,
    bytes: u64,
    /// Objects that were there already: kept or replaced, as was asked for.
    existing: u64,
    seconds: f64,
}

impl Loaded {
    fn text(&self, existing: Existing) -> String {
        let what = if existing == Existing::Keep { "kept" } else { "of them replaced" };
        let mut rows = vec![
            ("loaded", format!("{} objects of {}", self.objects, format_size(self.bytes))),
            ("from", self.file.display().to_string()),
            ("of pod", self.uuid.clone()),
            ("in", format!("{:.1} s", self.seconds)),
        ];
        if self.existing > 0 {
            rows.insert(1, (what, format!("{} that were there", self.existing)));
        }
        pairs(&rows)
    }
}

pub(crate) fn load(args: &LoadFileArgs) -> Result<()> {
    let started = Instant::now();
    let mut file = checked(&args.file)?;
    let Contents { pod: uuid, saved, .. } = file.contents();
    let existing = args.existing.into();
    let objects = Joined::new(&args.spec)?;
    let bar = progress("loading", saved.objects, OBJECTS);
    let loaded = objects.pod.load(&mut file, existing, |done| {
        bar.set_position(done.objects);
        objects.goes_on()
    });
    bar.finish_and_clear();
    let done = loaded.with_context(|| format!("{} is not loaded", args.file.display()))?;
    objects.pod.leave()?;
    let report = Loaded {
        spec: args.spec.to_string(),
        file: args.file.clone(),
        uuid: uuid.to_string(),
        objects: done.loaded.objects,
        bytes: done.loaded.bytes,
        existing: done.existing,
        seconds: started.elapsed().as_secs_f64(),
    };
    print(&report, args.format, |report| report.text(existing))
}

/// Copies the standard input to a temporary file. All of it is checked before any of it is loaded,
/// so it is read twice.
fn spooled() -> io::Result<File> {
    let mut file = tempfile::tempfile()?;
    io::copy(&mut io::stdin().lock(), &mut file)?;
    file.rewind()?;
    Ok(file)
}

/// A file, once all of it is known to be sound.
fn checked(path: &Path) -> Result<SavedFile<indicatif::ProgressBarIter<File>>> {
    let name = path.display();
    let file = if is_stream(path) { spooled() } else { File::open(path) };
    let file = file.with_context(|| format!("cannot open {name}"))?;
    let bytes = file.metadata().with_context(|| format!("cannot look at {name}"))?.len();
    let bar = progress("checking", bytes, BYTES);
    let checked = SavedFile::check(bar.wrap_read(file));
    bar.finish_and_clear();
    // It is read again, under another bar.
    bar.set_draw_target(ProgressDrawTarget::hidden());
    checked.with_context(|| format!("{name} is not loaded, and nothing is changed"))
}
