//! Monitoring of hosts: log, metrics, page, service manager, and who may join.

use std::fs::{File, Metadata};
use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use redis::Commands;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::tombolo::{complaint, connect, folder, get, metric, printed, tombolo};
use crate::up::ports;

/// A machine that has much else to do still gets there.
const PATIENCE: Duration = Duration::from_secs(60);

/// A host with a page, whose log is in a file.
pub(crate) struct Host {
    pub(crate) child: Child,
    pub(crate) port: u16,
    log: PathBuf,
}

impl Host {
    pub(crate) fn start(folder: &Path, pod: &str) -> Self {
        Self::start_with(folder, pod, |_| ())
    }

    /// The same, of a command that is changed before.
    pub(crate) fn start_with(folder: &Path, pod: &str, change: impl FnOnce(&mut Command)) -> Self {
        let port = ports(2);
        let log = folder.join(format!("log-{port}"));
        let [listen, pages] = [port, port + 1].map(|port| format!("127.0.0.1:{port}"));
        let args = ["serve", "--pod", pod, "--listen", &listen, "--metrics", &pages];
        let mut command = tombolo(&[&args[..], &["--log-format", "json"]].concat());
        command.stdout(Stdio::null()).stderr(File::create(&log).unwrap());
        change(&mut command);
        let host = Self { child: command.spawn().unwrap(), port, log };
        host.event("this host has joined the pod");
        host
    }

    fn events(&self) -> Vec<Value> {
        let log = std::fs::read_to_string(&self.log).unwrap();
        let whole = log.rsplit_once('\n').map_or("", |(whole, _)| whole);
        whole.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// The first such event, once it has happened.
    pub(crate) fn event(&self, what: &str) -> Value {
        patiently(what, || {
            self.events()
                .into_iter()
                .find(|event| event["event"].as_str().is_some_and(|event| event.contains(what)))
        })
    }

    /// The first such event about another host, once it has happened.
    pub(crate) fn event_of(&self, other: &Self, what: &str) -> Value {
        let pid = other.child.id();
        patiently(what, || {
            self.events().into_iter().find(|event| {
                event["pid"] == pid
                    && event["event"].as_str().is_some_and(|event| event.contains(what))
            })
        })
    }

    fn get(&self, path: &str) -> String {
        get(&format!("127.0.0.1:{}", self.port + 1), path)
    }

    /// The sum of all samples whose names and labels begin so.
    pub(crate) fn metric(&self, begin: &str) -> f64 {
        metric(&self.get("/metrics"), begin)
    }

    /// How many hosts are in a state.
    pub(crate) fn hosts(&self, state: &str) -> f64 {
        let metrics = self.get("/metrics");
        let with = format!("state=\"{state}\"}} ");
        let line = metrics.lines().find(|line| line.contains(&with)).unwrap();
        line.rsplit(' ').next().unwrap().parse().unwrap()
    }

    pub(crate) fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args([name, &id]).status().unwrap().success());
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            self.signal("-TERM");
            let _ = self.child.wait();
        }
    }
}

pub(crate) fn patiently<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let started = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(started.elapsed() < PATIENCE, "there is no {what}");
        thread::sleep(Duration::from_millis(50));
    }
}

pub(crate) fn pod(size: &str) -> (TempDir, String) {
    let folder = folder();
    let pod = folder.path().join("pod").to_str().unwrap().to_owned();
    printed(&["pod", "create", &pod, "--size", size, "--scr", "1MiB"]);
    (folder, pod)
}

/// A fenced host lived on with nothing in any log. Each trouble is seen as what it is.
#[test]
fn what_happens_to_hosts_is_in_the_log_and_the_metrics() {
    let (folder, pod) = pod("8MiB");
    let first = Host::start(folder.path(), &pod);
    let mut second = Host::start(folder.path(), &pod);
    let came = first.event("a host is in the pod");
    assert_eq!((&came["host"], &came["pid"]), (&json!(1), &json!(second.child.id())));
    assert_eq!(first.hosts("live"), 2.0);

    second.signal("-STOP");
    assert_eq!(first.event("a host gives no sign of life")["host"], 1);
    assert_eq!(first.hosts("silent"), 1.0);
    second.signal("-CONT");
    first.event("a host gives signs of life again");

    second.signal("-KILL");
    second.child.wait().unwrap();
    let fenced = first.event("a host was fenced");
    assert_eq!(
        (&fenced["host"], &fenced["ended"], &fenced["level"]),
        (&json!(1), &json!(true), &json!("warn"))
    );
    let cleaned = first.event("cleaned up after a host");
    assert_eq!((&cleaned["host"], &cleaned["lost"]), (&json!(1), &json!(0)));
    patiently("dead host", || (first.hosts("dead") == 1.0).then_some(()));
    assert_eq!(first.metric("tombolo_host_fences_total"), 1.0);
    assert_eq!(first.metric("tombolo_host_cleanups_total"), 1.0);

    let mut client = connect(([127, 0, 0, 1], first.port).into());
    let value = vec![0; 1 << 20];
    let full = (0..64).any(|n| client.set::<_, _, ()>(format!("key:{n}"), &value).is_err());
    assert!(full);
    let said = first.event("the pod is full");
    assert!(said["reason"].as_str().unwrap().contains("no room"), "{said}");
    assert!(first.metric("tombolo_host_full_errors_total") > 0.0);
    // The second has a number that its log does not forget: it is started again and leaves.
    let third = Host::start(folder.path(), &pod);
    // A host that comes and goes between two looks is not seen.
    patiently("third host", || (first.hosts("live") == 2.0).then_some(()));
    drop(third);
    first.event("a host has left");
}

/// Prometheus' own tool reads what `/metrics` says, and the alert rules.
#[test]
fn metrics_and_alert_rules_are_as_prometheus_wants_them() {
    let deploy = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy");
    let (folder, pod) = pod("16MiB");
    let host = Host::start(folder.path(), &pod);
    let mut client = connect(([127, 0, 0, 1], host.port).into());
    let () = client.set("key", 1).unwrap();
    let _: i32 = client.get("key").unwrap();
    let _: Option<i32> = client.get("none").unwrap();
    assert_eq!(host.metric("tombolo_server_hits_total"), 1.0);
    assert_eq!(host.metric("tombolo_server_misses_total"), 1.0);
    let metrics = host.get("/metrics");
    let of_get = |what: &str| {
        let line = |line: &&str| line.contains(what) && line.contains("command=\"get\"");
        metrics.lines().filter(line).count()
    };
    assert_eq!((of_get("_count{"), of_get("_bucket{")), (1, 25));
    // All metrics that alerts and the dashboard ask for are there.
    let names = |text: &str| {
        let word = |c: char| !(c.is_ascii_alphanumeric() || c == '_');
        let words = text.split(word).filter(|word| word.starts_with("tombolo_"));
        words.map(str::to_owned).collect::<Vec<_>>()
    };
    for file in ["prometheus/alerts.yml", "grafana/dashboard.json"] {
        for name in names(&std::fs::read_to_string(deploy.join(file)).unwrap()) {
            assert!(metrics.contains(&name), "{file} asks for {name}");
        }
    }
    let promtool = |args: &[&str], input: &str| {
        let child = Command::new("promtool").args(args).stdin(Stdio::piped()).spawn();
        let Ok(mut child) = child else {
            println!("skipped: there is no promtool");
            return;
        };
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        assert!(child.wait().unwrap().success(), "{args:?}");
    };
    promtool(&["check", "metrics"], &metrics);
    promtool(&["check", "rules", deploy.join("prometheus/alerts.yml").to_str().unwrap()], "");
}

/// A browser that is told what to do by a pipe.
pub(crate) struct Browser {
    child: Child,
    stdin: ChildStdin,
    stdout: ChildStdout,
    session: Option<String>,
    calls: u64,
}

impl Browser {
    /// `None`, if there is none here.
    pub(crate) fn start(folder: &Path) -> Option<Self> {
        let found = Command::new("sh").args(["-c", "command -v chromium"]).output().unwrap();
        if !found.status.success() {
            println!("skipped: there is no chromium");
            return None;
        }
        let script = "exec chromium --headless --no-sandbox --disable-gpu --disable-dev-shm-usage \
                      --no-first-run --user-data-dir=\"$1\" --remote-debugging-pipe \
                      3<&0 4>&1 >/dev/null 2>&1";
        let profile = folder.join("browser");
        let mut command = Command::new("sh");
        command.args(["-c", script, "sh"]).arg(profile);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (stdin, stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        Some(Self { child, stdin, stdout, session: None, calls: 0 })
    }

    fn call(&mut self, method: &str, params: &Value) -> Value {
        self.calls += 1;
        let mut call = json!({ "id": self.calls, "method": method, "params": params });
        if let Some(session) = &self.session {
            call["sessionId"] = json!(session);
        }
        self.stdin.write_all(format!("{call}\0").as_bytes()).unwrap();
        loop {
            let (mut message, mut byte) = (Vec::new(), [0]);
            loop {
                self.stdout.read_exact(&mut byte).unwrap();
                if byte[0] == 0 {
                    break;
                }
                message.push(byte[0]);
            }
            let message: Value = serde_json::from_slice(&message).unwrap();
            if message["id"] == self.calls {
                return message["result"].clone();
            }
        }
    }

    pub(crate) fn open(&mut self, url: &str) {
        let target = self.call("Target.createTarget", &json!({ "url": "about:blank" }));
        let attach = json!({ "targetId": target["targetId"], "flatten": true });
        let session = self.call("Target.attachToTarget", &attach);
        self.session = Some(session["sessionId"].as_str().unwrap().to_owned());
        self.call("Page.navigate", &json!({ "url": url }));
    }

    fn eval(&mut self, expression: &str) -> Value {
        let asked = json!({ "expression": expression, "returnByValue": true });
        self.call("Runtime.evaluate", &asked)["result"]["value"].clone()
    }

    pub(crate) fn until(&mut self, expression: &str) {
        patiently(expression, || (self.eval(expression) == true).then_some(()));
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn the_page_is_live_in_a_browser() {
    let (folder, pod) = pod("16MiB");
    let Some(mut browser) = Browser::start(folder.path()) else { return };
    let first = Host::start(folder.path(), &pod);
    let mut second = Host::start(folder.path(), &pod);
    browser.open(&format!("http://127.0.0.1:{}/", first.port + 1));
    browser.until("Number(document.body.dataset.frames) > 2");
    let state = |host: u8| {
        format!("document.querySelector('#hosts [data-host=\"{host}\"]')?.dataset.state")
    };
    browser.until(&format!("{} === 'live' && {} === 'live'", state(0), state(1)));
    // It is fed while there is load.
    let mut client = connect(([127, 0, 0, 1], first.port).into());
    for n in 0..2000 {
        let () = client.set(format!("key:{n}"), vec![1; 1000]).unwrap();
    }
    browser.until("document.querySelector('#latencies td')?.textContent === 'set'");
    browser.until("[...document.querySelectorAll('#map i')].some(i => i.title.includes('% used') && !i.title.startsWith('free'))");
    browser.until("document.querySelectorAll('#operations polyline').length === 1");
    // A host that is killed is shown as such.
    second.signal("-KILL");
    second.child.wait().unwrap();
    browser.until(&format!("{} === 'dead'", state(1)));
    browser.until("document.getElementById('events').textContent.includes('a host was fenced')");
    // On a phone nothing is wider than the screen.
    let phone = json!({ "width": 360, "height": 740, "deviceScaleFactor": 2, "mobile": true });
    browser.call("Emulation.setDeviceMetricsOverride", &phone);
    browser.until("document.documentElement.scrollWidth <= 360");
    for (scheme, darker) in [("dark", true), ("light", false)] {
        let feature = json!([{ "name": "prefers-color-scheme", "value": scheme }]);
        browser.call("Emulation.setEmulatedMedia", &json!({ "features": feature }));
        let back = "Number(getComputedStyle(document.body).backgroundColor.match(/\\d+/)[0])";
        browser.until(&format!("({back} < 100) === {darker}"));
    }
    // It needs nothing but this host.
    let foreign =
        "performance.getEntriesByType('resource').every(r => r.name.startsWith(location.origin))";
    assert_eq!(browser.eval(foreign), true);
    drop(first);
    browser.until("document.getElementById('link').textContent !== ''");
}

#[test]
fn a_service_manager_is_told() {
    let (folder, pod) = pod("8MiB");
    let path = folder.path().join("notify");
    let manager = UnixDatagram::bind(&path).unwrap();
    manager.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut command = tombolo(&["serve", "--pod", &pod, "--listen", "127.0.0.1:0"]);
    command.env("NOTIFY_SOCKET", &path).stdout(Stdio::null());
    let mut host = command.spawn().unwrap();
    let hear = |what: &str| loop {
        let mut told = [0; 256];
        let length = manager.recv(&mut told).unwrap();
        let told = String::from_utf8_lossy(&told[..length]).into_owned();
        if told.starts_with(what) {
            return told;
        }
    };
    hear("READY=1");
    hear("WATCHDOG=1");
    assert!(hear("STATUS=").contains("host 0 of 1"));
    assert!(Command::new("kill").arg(host.id().to_string()).status().unwrap().success());
    hear("STOPPING=1");
    assert!(host.wait().unwrap().success());
}

#[test]
fn a_pod_may_be_for_a_group_and_is_created_once() {
    let folder = folder();
    let pod = folder.path().join("pod");
    let spec = pod.to_str().unwrap();
    let own = Command::new("id").arg("-gn").output().unwrap().stdout;
    let group = String::from_utf8(own).unwrap();
    let create = ["pod", "create", spec, "--size", "8MiB", "--scr", "1MiB", "--if-absent"];
    let create = [&create[..], &["--mode", "660", "--group", group.trim()]].concat();
    let created = printed(&create);
    let found: Metadata = pod.metadata().unwrap();
    assert_eq!(found.permissions().mode() & 0o777, 0o660);
    assert_eq!(found.gid(), rustix::process::getegid().as_raw());
    // The same again changes nothing.
    let uuid = |text: &str| text.lines().next().unwrap().rsplit(' ').next().unwrap().to_owned();
    assert_eq!(uuid(&printed(&create)), uuid(&created));
    let other = folder.path().join("other");
    let refused =
        ["pod", "create", other.to_str().unwrap(), "--size", "8MiB", "--group", "nobodys"];
    assert!(complaint(&refused).contains("there is no group \"nobodys\""));
    assert!(!other.exists());
}
