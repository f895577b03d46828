"""Virtual machines of QEMU's emulator (TCG), with a stock kernel of Debian's and a file system of ours.

QEMU and the kernel are Debian packages. Those that are not installed are fetched and unpacked in a
work folder. Where that cannot be done, the reason is a `Skipped`.
"""

import gzip
import os
import re
import shutil
import subprocess
from pathlib import Path


class Skipped(Exception):
    """What cannot be had here."""


def quiet(*words, **options):
    """Runs a command; its output, or why it failed."""
    done = subprocess.run(words, capture_output=True, text=True, check=False, **options)
    if done.returncode:
        raise Skipped(f"{words[0]} failed: {(done.stderr or done.stdout).strip()[-400:]}")
    return done.stdout


class Packages:
    """Debian packages that are unpacked in a folder, and not installed."""

    def __init__(self, work):
        self.work = work
        release = dict(re.findall(r'^(\w+)="?([^"\n]*)', Path("/etc/os-release").read_text(), re.M))
        self.suite = release.get("VERSION_CODENAME", "")
        if release.get("ID") != "debian" or not self.suite:
            raise Skipped("packages are fetched on Debian only")
        for folder in ("lists/partial", "cache/archives/partial", "root"):
            (work / folder).mkdir(parents=True, exist_ok=True)
        signed = "[signed-by=/usr/share/keyrings/debian-archive-keyring.gpg]"
        suites = (self.suite, f"{self.suite}-updates", f"{self.suite}-backports")
        source = "http://deb.debian.org/debian"
        (work / "sources.list").write_text("".join(f"deb {signed} {source} {suite} main\n" for suite in suites))
        settings = {"Dir::Etc::sourcelist": work / "sources.list", "Dir::Etc::sourceparts": "-",
                    "Dir::State::lists": work / "lists", "Dir::Cache": work / "cache"}
        self.options = [word for item in settings.items() for word in ("-o", "=".join(map(str, item)))]
        quiet("apt-get", "-q", *self.options, "update")

    def qemu(self):
        """What the emulator needs, besides what is installed."""
        quiet("apt-get", "-qy", *self.options, "install", "--download-only", "--no-install-recommends",
              "qemu-system-x86")
        self.unpack((self.work / "cache/archives").glob("*.deb"))

    def kernel(self):
        """The newest kernel for machines like these."""
        backports = f"linux-image-cloud-amd64/{self.suite}-backports"
        shown = quiet("apt-cache", *self.options, "show", backports)
        name = re.search(r"linux-image-[\w.+~-]*\d[\w.+~-]*-cloud-amd64", shown)
        if not name:
            raise Skipped("there is no kernel in Debian's backports")
        quiet("apt-get", "-q", *self.options, "download", name[0], cwd=self.work / "cache")
        self.unpack((self.work / "cache").glob("linux-image-*.deb"))

    def unpack(self, archives):
        for archive in archives:
            quiet("dpkg-deb", "-x", archive, self.work / "root")


def found(work, pattern):
    return next(iter(sorted((work / "root").glob(pattern))), None)


def emulator(work):
    """QEMU's command, with its environment, and the kernel."""
    installed = shutil.which("qemu-system-x86_64")
    if not found(work, "boot/vmlinuz-*") or not (installed or found(work, "usr/bin/qemu-system-x86_64")):
        packages = Packages(work)
        if not installed:
            packages.qemu()
        packages.kernel()
    environment = dict(os.environ)
    words = [installed]
    if not installed:
        root = work / "root"
        libraries = "usr/lib/x86_64-linux-gnu", "lib/x86_64-linux-gnu"
        environment["LD_LIBRARY_PATH"] = ":".join(str(root / library) for library in libraries)
        environment["QEMU_MODULE_DIR"] = str(root / "usr/lib/x86_64-linux-gnu/qemu")
        words = [str(root / "usr/bin/qemu-system-x86_64")]
        for data in ("usr/share/qemu", "usr/share/seabios"):
            words += ["-L", str(root / data)]
    return words, environment, found(work, "boot/vmlinuz-*")


def libraries(program):
    """The files that a program is loaded with."""
    listed = subprocess.run(["ldd", program], capture_output=True, text=True, check=False).stdout
    return re.findall(r"(/\S+) \(0x", listed)


def entry(name, mode, data):
    """One file of a cpio archive."""
    word = name.encode() + b"\0"
    numbers = (0, mode, 0, 0, 1, 0, len(data), 0, 0, 5, 1, len(word), 0)
    head = b"070701" + b"".join(b"%08x" % number for number in numbers) + word
    return head + b"\0" * (-len(head) % 4) + data + b"\0" * (-len(data) % 4)


def archive(packed, init, files, programs):
    """Packs an initial file system: init, files by name, and the libraries of programs."""
    files = dict(files)
    for program in programs:
        files |= {library.lstrip("/"): library for library in libraries(program)}
    data = entry("dev", 0o40755, b"") + entry("dev/console", 0o20600, b"")
    folders = {str(folder) for name in files for folder in Path(name).parents} - {"."}
    data += b"".join(entry(folder, 0o40755, b"") for folder in sorted(folders))
    data += entry("init", 0o100755, Path(init).read_bytes())
    for name, file in files.items():
        data += entry(name, 0o100755, Path(file).read_bytes())
    packed.write_bytes(gzip.compress(data + entry("TRAILER!!!", 0, b""), 1))
    return packed
