//! The findings about a memory go along with the pods that are created there, and keep hosts from
//! pods that cannot work.

use std::path::Path;

use tombolo_memory::{LnrAddr, Memory};
use tombolo_pod::{
    AreaRequest, Budget, DETAILS, Flaw, Kind, Layout, LogOptions, PARAMETERS, Pod, PodError,
    PodOptions, PodSpec, Qualification, RECORD_LINES, Sizes, TRIED_LINES, TriedPlace, Verdict,
    tried_memory,
};

const RECORD: u64 = TRIED_LINES.end - TRIED_LINES.start - RECORD_LINES;

fn layout(scr_bytes: u64, lnr_bytes: u64) -> Result<Layout, PodError> {
    let any = |_: Budget| Ok([0; PARAMETERS]);
    let (kind, log) = (Kind::new("test"), LogOptions::default());
    let request = AreaRequest {
        kind,
        version: 1,
        scr_bytes: None,
        lnr_bytes: None,
        log,
        plan: &any,
        on_demand: None,
    };
    Layout::plan(scr_bytes, lnr_bytes, PodOptions::default(), &[request])
}

fn create(spec: &PodSpec, force: bool) -> Result<Pod<tombolo_memory::Mapped>, PodError> {
    let sizes = Sizes { scr_bytes: Some(64 << 10), lnr_bytes: Some(8 << 20), force, sparse: false };
    tombolo_pod::create(spec, sizes, &layout)
}

/// Writes what was found out, as `tombolo qualify` does.
fn qualify(spec: &PodSpec, verdict: Verdict) -> TriedPlace {
    let (memory, place) = tried_memory(spec, true).unwrap();
    Qualification { verdict, details: [5; DETAILS] }.write(&memory, RECORD);
    place
}

fn verdict(pod: &Pod<tombolo_memory::Mapped>) -> Option<Verdict> {
    pod.qualification().map(|found| found.verdict)
}

fn spec(folder: &Path, name: &str) -> PodSpec {
    PodSpec::path(folder.join(name))
}

#[test]
fn a_pod_keeps_what_was_known_of_its_memory() {
    let folder = tempfile::tempdir().unwrap();
    let spec = spec(folder.path(), "pod");
    assert_eq!(qualify(&spec, Verdict::CoherentWithAtomics), TriedPlace::Memory);
    let pod = create(&spec, false).unwrap();
    assert_eq!(verdict(&pod), Some(Verdict::CoherentWithAtomics));
    drop(pod);
    assert_eq!(verdict(&create(&spec, true).unwrap()), Some(Verdict::CoherentWithAtomics));
    assert!(matches!(create(&spec, false), Err(PodError::Exists { .. })));
}

#[test]
fn a_pod_is_tried_beside_its_hosts() {
    let folder = tempfile::tempdir().unwrap();
    let spec = spec(folder.path(), "pod");
    let pod = create(&spec, false).unwrap();
    assert_eq!(verdict(&pod), None);
    let (memory, place) = tried_memory(&spec, false).unwrap();
    assert_eq!(place, TriedPlace::Pod);
    memory.write(LnrAddr::new(0), &vec![0xA5; memory.lnr_bytes() as usize]);
    drop(pod);
    let seat = tombolo_pod::open(&spec).unwrap().join().unwrap();
    assert_eq!(qualify(&spec, Verdict::WriteBackWorks), TriedPlace::Pod);
    let refused = tombolo_pod::open(&spec).map(|_| ()).unwrap_err();
    assert!(refused.to_string().contains("incoherent, write-back works"), "{refused}");
    assert_eq!(seat.host(), 0);
}

#[test]
fn memory_that_does_not_do_what_a_pod_needs_is_refused_unless_it_is_trusted() {
    let folder = tempfile::tempdir().unwrap();
    let bad = [
        Verdict::CoherentWithoutAtomics,
        Verdict::WriteBackWorks,
        Verdict::Unfit(Flaw::Torn),
        Verdict::Unfit(Flaw::Unproven),
    ];
    for (number, known) in bad.into_iter().enumerate() {
        let spec = spec(folder.path(), &number.to_string());
        qualify(&spec, known);
        let refused = create(&spec, false).map(|_| ()).unwrap_err();
        assert!(matches!(refused, PodError::NotAllowed { .. }), "{refused}");
        assert!(refused.to_string().contains(&known.to_string()), "{refused}");
        assert!(refused.to_string().contains("--trust-me"), "{refused}");
        drop(create(&spec.clone().trusted(true), false).unwrap());
        assert!(matches!(tombolo_pod::open(&spec), Err(PodError::NotAllowed { .. })));
        assert_eq!(verdict(&tombolo_pod::inspect(&spec).unwrap()), Some(known));
        tombolo_pod::open(&spec.trusted(true)).map(|_| ()).unwrap();
    }
}

#[test]
fn a_damaged_record_says_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let spec = spec(folder.path(), "pod");
    qualify(&spec, Verdict::Unfit(Flaw::Late));
    let (memory, _) = tried_memory(&spec, false).unwrap();
    memory.write(LnrAddr::of_line(RECORD).plus(24), &[9]);
    drop(memory);
    // The remains are a file with something in it.
    assert!(matches!(create(&spec, false), Err(PodError::Occupied { .. })));
    assert_eq!(verdict(&create(&spec, true).unwrap()), None);
}

#[test]
fn memory_without_room_is_refused_with_a_reason() {
    let folder = tempfile::tempdir().unwrap();
    let small = folder.path().join("small");
    std::fs::write(&small, [1; 100]).unwrap();
    let refused = tried_memory(&PodSpec::path(&small), true).map(|_| ()).unwrap_err();
    assert!(refused.to_string().contains("4 KiB"), "{refused}");
    let two = format!("{0}/scr,size=1MiB+{0}/lnr,size=8MiB", folder.path().display());
    let two: PodSpec = two.parse().unwrap();
    assert_eq!(qualify(&two, Verdict::CoherentWithAtomics), TriedPlace::Memory);
    let pod = tombolo_pod::create(&two, Sizes::default(), &layout).unwrap();
    assert_eq!(verdict(&pod), Some(Verdict::CoherentWithAtomics));
    drop(pod);
    let refused = tried_memory(&two, false).map(|_| ()).unwrap_err();
    assert!(refused.to_string().contains("before the pod is created"), "{refused}");
}
