//! One process takes over from another: no connection is refused, and open runs continue.

use super::support::agent::{Agent, Step, write};
use super::support::client::{Client, End, INPUT, post, post_run};
use super::support::gateway::{Gateway, TempFile, diglot};
use super::support::sse::{
    CLOSED, COMPLETE_RUN, FINISHED, HEAD, assert_succeeded, complete_run, events, run_beginning, types,
};
use super::support::{eventually, within_deadline};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use tokio::net::TcpStream;

const UPGRADE: &[&str] = &["--upgrade"];

/// A configuration of its own in a file, with a folder for its sockets that is gone when the test is.
struct UpgradeSetup {
    file: TempFile,
    run_dir: PathBuf,
}

impl UpgradeSetup {
    fn new(top: &str, routes: &[(&str, &Agent)]) -> UpgradeSetup {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let name = format!("diglot-upgrade-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let place = UpgradeSetup { file: TempFile::new(""), run_dir: std::env::temp_dir().join(name) };
        place.write_config(top, routes);
        place
    }

    fn write_config(&self, top: &str, routes: &[(&str, &Agent)]) {
        let route = |(name, agent): &(&str, &Agent)| {
            let url = agent.url();
            format!("  - {{name: {name}, path: /{name}, client: ag-ui, agent: ag-ui, upstream: \"{url}\"}}\n")
        };
        let routes: String = routes.iter().map(route).collect();
        let run_dir = self.run_dir.display();
        let listeners = "listeners: {data: [127.0.0.1:0, 127.0.0.1:0], status: 127.0.0.1:0}";
        let text = format!("{listeners}\ndrain_grace: 0s\nrun_dir: {run_dir}\n{top}\nroutes:\n{routes}");
        std::fs::write(self.file.path(), text).expect("a file");
    }

    fn config(&self) -> &Path {
        self.file.path()
    }
}

impl Drop for UpgradeSetup {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.run_dir);
    }
}

/// Starts an agent whose runs wait until the test finishes them.
fn start_paused_agent() -> Agent {
    let (first, rest) = (HEAD.to_owned() + &run_beginning(), CLOSED.to_owned() + FINISHED);
    Agent::with_script(vec![Step::Read, write(first), Step::Pause, write(rest)])
}

/// A client in the middle of a run.
async fn start_run(to: SocketAddr, path: &str) -> Client {
    let mut client = Client::connect(to).await;
    client.send(post(path, "", INPUT)).await;
    assert_eq!(client.read_head().await.status, 200);
    client.read_until("你好\"}\n\n").await;
    client
}

/// The rest of a run that was in the middle.
async fn assert_finishes(mut client: Client) {
    let (rest, end) = client.read_rest().await;
    let rest = String::from_utf8(rest).expect("UTF-8");
    assert_eq!((types(&events(&rest)), end), (vec!["TEXT_MESSAGE_END", "RUN_FINISHED"], End::Clean));
}

#[tokio::test]
async fn keeps_streams_and_serves_every_request_during_an_upgrade() {
    const STREAMS: usize = 200;
    let (slow, quick) = (start_paused_agent(), Agent::with_response(HEAD.to_owned() + &complete_run()));
    let place = UpgradeSetup::new("", &[("slow", &slow), ("quick", &quick)]);
    let mut old = Gateway::start_with_config(place.config(), &[]).await;
    let mut streams = Vec::new();
    for _ in 0..STREAMS {
        streams.push(start_run(old.data, "/slow").await);
    }

    // Some keep their connection for as long as they may, and some take a new one for each run.
    let (over, done) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let clients: Vec<_> = (0..8)
        .map(|number| {
            let (over, done, data) = (Arc::clone(&over), Arc::clone(&done), old.data);
            tokio::spawn(async move {
                let mut client = Client::connect(data).await;
                while !over.load(Ordering::Relaxed) {
                    client.send(post("/quick", "", INPUT)).await;
                    let answer = client.read_answer().await;
                    assert_succeeded(&answer, COMPLETE_RUN);
                    done.fetch_add(1, Ordering::Relaxed);
                    if number % 2 == 0 || answer.header("connection") == Some("close") {
                        client = Client::connect(data).await;
                    }
                }
            })
        })
        .collect();
    eventually("load", async || (done.load(Ordering::Relaxed) > 50).then_some(())).await;

    // The new one has a route that the old one had not.
    place.write_config("", &[("slow", &slow), ("quick", &quick), ("new", &quick)]);
    let mut new = Gateway::start_with_config(place.config(), UPGRADE).await;
    assert_eq!((new.data, new.status), (old.data, old.status));
    new.next_log("taken over").await;
    let leaving = old.next_log("shutdown started").await;
    assert_eq!(leaving["successor"], true);
    // A new connection may be the old one's until it has closed its socket, and never again from then on.
    eventually("the new process", async || (post_run(new.data, "/new").await.status == 200).then_some(())).await;
    for _ in 0..50 {
        assert_succeeded(&post_run(new.data, "/new").await, COMPLETE_RUN);
    }
    assert_eq!(old.next_log("draining").await["runs"], STREAMS);
    let before = done.load(Ordering::Relaxed);
    eventually("load", async || (done.load(Ordering::Relaxed) > before + 50).then_some(())).await;
    over.store(true, Ordering::Relaxed);
    for client in clients {
        client.await.expect("every answer was a whole run");
    }

    for _ in 0..STREAMS {
        slow.resume();
    }
    for stream in streams {
        assert_finishes(stream).await;
    }
    assert_eq!(old.process.exit().await.code(), Some(0));
    // Its end took nothing of the other one's away.
    assert_succeeded(&post_run(new.data, "/new").await, COMPLETE_RUN);
    let order = diglot().args(["drain", "--run-dir"]).arg(&place.run_dir).output().expect("the binary starts");
    assert_eq!(order.status.code(), Some(0), "{order:?}");
    assert_eq!(new.process.exit().await.code(), Some(0));
}

/// The old process continues unchanged.
#[tokio::test]
async fn keeps_the_old_process_when_the_new_one_fails_to_start() {
    let agent = Agent::with_response(HEAD.to_owned() + &complete_run());
    let place = UpgradeSetup::new("", &[("run", &agent)]);
    let old = Gateway::start_with_config(place.config(), &[]).await;
    place.write_config("keep_alive: soon", &[("run", &agent)]);
    let failed = diglot().args(["serve", "--upgrade", "--config"]).arg(place.config()).output();
    assert_eq!(failed.expect("the binary starts").status.code(), Some(78));
    // One that has the sockets already, and then cannot bind another.
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let text = std::fs::read_to_string(place.config()).expect("a file").replace("keep_alive: soon", "");
    let address = taken.local_addr().expect("bound");
    std::fs::write(place.config(), text.replace("status: 127.0.0.1:0", &format!("status: {address}"))).expect("a file");
    let failed = diglot().args(["serve", "--upgrade", "--config"]).arg(place.config()).output();
    let failed = failed.expect("the binary starts");
    assert_eq!(failed.status.code(), Some(69), "{}", String::from_utf8_lossy(&failed.stderr));
    for _ in 0..20 {
        assert_succeeded(&post_run(old.data, "/run").await, COMPLETE_RUN);
    }
    assert_eq!(old.get_status("/readyz").await.status, 200);
    // And may be taken over from yet.
    place.write_config("", &[("run", &agent)]);
    let new = Gateway::start_with_config(place.config(), UPGRADE).await;
    assert_eq!(new.data, old.data);
}

/// Its requests would reach the old one, whose configuration they see.
#[tokio::test]
async fn a_start_during_a_shutdown_names_the_way_out() {
    let agent = start_paused_agent();
    let place = UpgradeSetup::new("", &[("run", &agent)]);
    let text = std::fs::read_to_string(place.config()).expect("a file");
    std::fs::write(place.config(), text.replace("drain_grace: 0s", "drain_grace: 60s")).expect("a file");
    let start = || {
        let failed = diglot().args(["serve", "--config"]).arg(place.config()).output().expect("the binary starts");
        assert_eq!(failed.status.code(), Some(69));
        String::from_utf8(failed.stderr).expect("UTF-8")
    };
    let command = |name: &str| {
        let done = diglot().args([name, "--config"]).arg(place.config()).output().expect("the binary starts");
        String::from_utf8(done.stdout).expect("UTF-8")
    };
    let old = Gateway::start_with_config(place.config(), &[]).await;
    let text = start();
    assert!(text.contains("another gateway has") && text.contains("`diglot serve --upgrade` takes over"), "{text}");
    assert_eq!(command("reload"), "nothing changed\n");
    assert_eq!(command("drain"), "draining\n");
    eventually("the drain", async || (old.get_status("/readyz").await.status != 200).then_some(())).await;
    let text = start();
    assert!(text.contains("is shutting down") && text.contains("`drain_grace`"), "{text}");
    assert!(text.contains("`diglot serve --upgrade` takes over its sockets"), "{text}");
    let text = command("reload");
    assert!(text.contains("nothing changed; this gateway is shutting down: the next one reads the file"), "{text}");
    let new = Gateway::start_with_config(place.config(), UPGRADE).await;
    assert_eq!(new.data, old.data);
}

/// A service manager may always pass `--upgrade`.
#[tokio::test]
async fn starts_normally_without_a_previous_process() {
    let agent = Agent::with_response(HEAD.to_owned() + &complete_run());
    let place = UpgradeSetup::new("", &[("run", &agent)]);
    let mut gateway = Gateway::start_with_config(place.config(), UPGRADE).await;
    gateway.next_log("no gateway to take over from; starting as usual").await;
    assert_succeeded(&post_run(gateway.data, "/run").await, COMPLETE_RUN);
    let file = TempFile::new("routes: [{path: /a, client: ag-ui, agent: hai, upstream: \"http://127.0.0.1:9/\"}]");
    let failed = diglot().args(["serve", "--upgrade", "--config"]).arg(file.path()).output();
    let failed = failed.expect("the binary starts");
    assert_eq!(failed.status.code(), Some(78));
    assert!(String::from_utf8_lossy(&failed.stderr).contains("`run_dir` is not set"));
}

/// The runs of the old one have a time of their own, and a signal ends it as it would have before.
#[tokio::test]
async fn ends_runs_of_the_old_process_at_the_upgrade_timeout() {
    for signal in [false, true] {
        let agent = start_paused_agent();
        let time = if signal { "drain_timeout: 0s" } else { "upgrade_timeout: 100ms" };
        let place = UpgradeSetup::new(time, &[("run", &agent)]);
        let mut old = Gateway::start_with_config(place.config(), &[]).await;
        let mut client = start_run(old.data, "/run").await;
        let idle = TcpStream::connect(old.data).await.expect("a connection");
        let new = Gateway::start_with_config(place.config(), UPGRADE).await;
        old.next_log("shutdown started").await;
        if signal {
            old.process.signal("TERM");
        }
        let (rest, end) = client.read_rest().await;
        let rest = events(std::str::from_utf8(&rest).expect("UTF-8"));
        assert_eq!((rest.last().expect("an event")["code"].as_str(), end), (Some("gateway_draining"), End::Clean));
        let mut byte = [0];
        let closed = within_deadline("the end of an idle connection", async {
            idle.readable().await.expect("a socket");
            idle.try_read(&mut byte)
        });
        assert_eq!(closed.await.expect("no reset"), 0);
        assert_eq!(old.process.exit().await.code(), Some(0));
        assert_eq!(new.get_status("/readyz").await.status, 200);
    }
}
