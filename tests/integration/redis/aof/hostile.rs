//! Masters that lie or are broken: the link is closed, and the files stay as they are.

use std::io::Write as _;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rig::wait;
use wire::resp::{CommandFrame, Commands, Limits};

use super::scene::{Relay, Scene, digest, info, master};

const ID: &str = "0123456789012345678901234567890123456789";

/// What a broken master answers to `PSYNC`, one after the other.
fn answers() -> Vec<Vec<u8>> {
    let full = |rest: &str| format!("+FULLRESYNC {ID} 5\r\n{rest}").into_bytes();
    let mark = "m".repeat(40);
    vec![
        full("$99999999999999999999\r\n"),
        full("$-1\r\n"),
        full("$EOF:short\r\n"),
        full(&format!("$9000000000000000000\r\n{ID}")),
        // An end that is right but for its checksum.
        [full("$18\r\nREDIS0010"), b"\xff\x01\0\0\0\0\0\0\0".to_vec()].concat(),
        // A wrong checksum, no RDB file at all, and one that ends too early.
        full("$20\r\nREDIS0010aaaaaaaaaaa*1\r\n$4\r\nPING\r\n"),
        full(&format!("$EOF:{mark}\r\nno RDB file{mark}")),
        full("$100\r\nREDIS0010"),
        b"+FULLRESYNC short 5\r\n".to_vec(),
        format!("+FULLRESYNC {ID} -7\r\n").into_bytes(),
        b"+OK\r\n".to_vec(),
        b"x".repeat(64 << 10),
        b"+CONTINUE\r\n*1\r\n$-5\r\n".to_vec(),
        b"+CONTINUE\r\n*2\r\n$3\r\nSETPLUS\r\n".to_vec(),
        b"+CONTINUE\r\n\0\0\0\0".to_vec(),
        b"+CONTINUE short\r\n".to_vec(),
        b"+CONTINUE\r\nSET precious 2\r\n".to_vec(),
        b"+CONTINUE\r\n*99999999999999999999\r\n".to_vec(),
        b"+CONTINUE\r\n*1\r\n$9999999999999\r\n".to_vec(),
    ]
}

/// A full resync with no key, to an offset.
fn empty_base(id: &str, offset: u64) -> Vec<u8> {
    let head = format!("+FULLRESYNC {id} {offset}\r\n$18\r\nREDIS0010");
    [head.as_bytes(), b"\xff\0\0\0\0\0\0\0\0"].concat()
}

/// How a broken master behaves.
struct BrokenMaster<F> {
    /// What it answers to the `PSYNC` of a number, which asks for an offset.
    says: F,
    /// What it answers to `INFO`.
    info: String,
}

/// Listens, answers each that joins with the next answer, at the end with the last, and closes;
/// counts them.
fn broken_master() -> (SocketAddr, Arc<AtomicUsize>) {
    let all = answers();
    broken_master_that(move |number, _| all[number.min(all.len() - 1)].clone(), "")
}

/// The same with what it answers to the client of a number, and to `INFO`.
fn broken_master_that(
    says: impl Fn(usize, u64) -> Vec<u8> + Send + Sync + 'static,
    info: &str,
) -> (SocketAddr, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, joined) = (listener.local_addr().unwrap(), Arc::new(AtomicUsize::new(0)));
    let counted = Arc::clone(&joined);
    let broken = Arc::new(BrokenMaster { says, info: info.to_owned() });
    std::thread::spawn(move || {
        for mut client in listener.incoming().flatten() {
            let (broken, counted) = (Arc::clone(&broken), Arc::clone(&counted));
            // Whoever only asks how it is stays connected.
            std::thread::spawn(move || answer(&mut client, &counted, &broken));
        }
    });
    (address, joined)
}

fn answer(
    client: &mut std::net::TcpStream,
    joined: &AtomicUsize,
    broken: &BrokenMaster<impl Fn(usize, u64) -> Vec<u8>>,
) -> std::io::Result<()> {
    let (mut commands, mut bytes) = (Commands::default(), Vec::new());
    loop {
        let mut piece = [0; 4096];
        match std::io::Read::read(client, &mut piece)? {
            0 => return Ok(()),
            read => bytes.extend_from_slice(&piece[..read]),
        }
        while let Ok(CommandFrame::Command(len)) = commands.cut(&bytes, &Limits::default()) {
            let command = commands.command(&bytes);
            let name = command.name().to_owned();
            let offset = command.get(2).and_then(|arg| std::str::from_utf8(arg).ok()?.parse().ok());
            bytes.drain(..len);
            match name.as_slice() {
                b"ROLE" => client.write_all(b"*3\r\n$6\r\nmaster\r\n:0\r\n*0\r\n")?,
                b"PSYNC" => {
                    let number = joined.load(Ordering::Relaxed);
                    client.write_all(&(broken.says)(number, offset.unwrap_or(0)))?;
                    joined.fetch_add(1, Ordering::Relaxed);
                    // Without this what was sent may be lost to a reset.
                    client.shutdown(std::net::Shutdown::Write)?;
                }
                b"REPLCONF" => client.write_all(b"+OK\r\n")?,
                b"INFO" => {
                    let info = &broken.info;
                    client.write_all(format!("${}\r\n{info}\r\n", info.len()).as_bytes())?;
                }
                _ => client.write_all(b"+PONG\r\n")?,
            }
        }
    }
}

/// A master that answers to `PSYNC` with `head`, and then sends one piece again and again.
fn endless_master(head: String, piece: Vec<u8>) -> (SocketAddr, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, joined) = (listener.local_addr().unwrap(), Arc::new(AtomicUsize::new(0)));
    let counted = Arc::clone(&joined);
    std::thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let (head, piece, counted) = (head.clone(), piece.clone(), Arc::clone(&counted));
            std::thread::spawn(move || -> std::io::Result<()> {
                let mut client = client;
                let mut bytes = [0; 4096];
                loop {
                    let read = std::io::Read::read(&mut client, &mut bytes)?;
                    let said = String::from_utf8_lossy(&bytes[..read]).into_owned();
                    let count = said.matches("\r\n$4\r\nROLE").count();
                    if read == 0 {
                        return Ok(());
                    }
                    if said.contains("PSYNC") {
                        break;
                    }
                    // The login is a PING; what follows it are ROLE, REPLCONF and INFO at once.
                    let replies: &[u8] = match count {
                        0 => b"+PONG\r\n",
                        _ => b"*3\r\n$6\r\nmaster\r\n:0\r\n*0\r\n+OK\r\n$0\r\n\r\n$0\r\n\r\n",
                    };
                    client.write_all(replies)?;
                }
                client.write_all(head.as_bytes())?;
                let sent = loop {
                    if let Err(error) = client.write_all(&piece) {
                        break error;
                    }
                };
                counted.fetch_add(1, Ordering::Relaxed);
                Err(sent)
            });
        }
    });
    (address, joined)
}

#[test]
fn a_base_that_never_ends_costs_no_more_than_base_max_and_then_the_link() {
    let mark = "m".repeat(40);
    for head in [format!("$EOF:{mark}"), "$9000000000000000000".to_owned()] {
        let master = master(&[]);
        let relay = Relay::to(master.address);
        let lines = "base-max = \"4MiB\"";
        let scene = Scene::new(&format!("redis://{}", relay.address), lines, "");
        let mut client = master.client();
        client.line("SET precious 1");
        scene.wait_caught_up(&master);
        let base = scene.last_base();
        let head = format!("+FULLRESYNC {ID} 5\r\n{head}\r\nREDIS0010");
        let (endless, ended) = endless_master(head, vec![0; 64 << 10]);
        relay.turn_to(endless);
        wait::until("it was closed, twice", wait::LONG, || ended.load(Ordering::Relaxed) > 1);
        assert_eq!(scene.last_base(), base);
        let files = std::fs::read_dir(scene.append_dir()).unwrap().flatten();
        let bytes: u64 = files.map(|file| file.metadata().map_or(0, |of| of.len())).sum();
        assert!(bytes < 6 << 20, "{bytes} bytes of files");
        relay.turn_to(master.address);
        client.line("SET more 1");
        scene.wait_caught_up(&master);
        let (restored, _dir) = scene.restored();
        assert_eq!(digest(&restored), digest(&master));
    }
}

#[test]
fn a_command_that_never_ends_is_no_memory_and_is_cut_off_again() {
    let master = master(&[]);
    let relay = Relay::to(master.address);
    let url = format!("redis://{}", relay.address);
    let mut scene = Scene::new(&url, "buffer = \"1MiB\"", "");
    let mut client = master.client();
    client.line("SET precious 1");
    scene.wait_caught_up(&master);
    // A value of a terabyte: 16 MiB of it come, then the link breaks.
    let head = "+CONTINUE\r\n*3\r\n$3\r\nSET\r\n$1\r\na\r\n$1000000000000\r\n".to_owned();
    let (endless, _) = endless_master(head, vec![b'x'; 64 << 10]);
    relay.turn_to(endless);
    wait::until("much of it has come", wait::LONG, || {
        scene.status()["increment_bytes"].as_u64() > Some(16 << 20)
    });
    let status = format!("/proc/{}/status", scene.weir.running().id());
    let status = std::fs::read_to_string(status).unwrap();
    let rss = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
    let kib: u64 = rss.split_whitespace().next().unwrap().parse().unwrap();
    assert!(kib < 128 << 10, "{kib} KiB");
    // The real one has less of this history than came: its files stay for whoever looks.
    relay.turn_to(master.address);
    wait::until("it is said", wait::LONG, || {
        let trouble = scene.status()["trouble"].as_str().unwrap_or_default().to_owned();
        trouble.contains("goes back in its own history")
    });
    let (restored, _dir) = scene.restored();
    assert_eq!(digest(&restored), digest(&master));
}

#[test]
fn offsets_that_go_back_in_the_same_history_are_refused() {
    let master = master(&["--repl-diskless-sync-delay", "0"]);
    let relay = Relay::to(master.address);
    let scene = Scene::new(&format!("redis://{}", relay.address), "", "");
    let mut client = master.client();
    client.line("SET precious 1");
    scene.wait_caught_up(&master);
    // A master counts from its first replica on.
    client.line("SET precious 2");
    scene.wait_caught_up(&master);
    let (base, generations) = (scene.last_base(), scene.status()["generations"].clone());
    let id = info(&mut client, "replication", "master_replid");
    // A whole, right data set, of this history, from before what the file has.
    let answer = empty_base(&id, 1);
    let (broken, joined) = broken_master_that(move |_, _| answer.clone(), "");
    relay.turn_to(broken);
    wait::until("it was said twice", wait::LONG, || joined.load(Ordering::Relaxed) > 1);
    let trouble = scene.status()["trouble"].as_str().unwrap_or_default().to_owned();
    assert!(trouble.contains("goes back"), "{trouble}");
    assert_eq!((scene.last_base(), &scene.status()["generations"]), (base, &generations));
    relay.turn_to(master.address);
    client.line("SET more 1");
    scene.wait_caught_up(&master);
    let (restored, _dir) = scene.restored();
    assert_eq!(digest(&restored), digest(&master));
    assert_eq!(info(&mut client, "stats", "sync_full"), "1");
}

#[test]
fn a_stream_under_another_id_is_refused_where_the_master_has_no_such_history() {
    let master = master(&["--repl-diskless-sync-delay", "0"]);
    let relay = Relay::to(master.address);
    let scene = Scene::new(&format!("redis://{}", relay.address), "", "");
    let mut client = master.client();
    client.line("SET precious 1");
    scene.wait_caught_up(&master);
    let (none, other) = ("0".repeat(40), "f".repeat(40));
    let says = format!("+CONTINUE {ID}\r\n*3\r\n$3\r\nSET\r\n$8\r\nprecious\r\n$1\r\n2\r\n");
    // It goes on from nowhere, from elsewhere, and is not what it says.
    for (own, before) in [(ID, &none), (ID, &other), (&other, &none)] {
        let info = format!("master_replid:{own}\r\nmaster_replid2:{before}\r\n");
        let says = says.clone();
        let (broken, joined) = broken_master_that(move |_, _| says.clone().into_bytes(), &info);
        relay.turn_to(broken);
        wait::until("it was asked twice", wait::LONG, || joined.load(Ordering::Relaxed) > 1);
        let trouble = scene.status()["trouble"].as_str().unwrap_or_default().to_owned();
        assert!(trouble.contains("no such history"), "{trouble}");
    }
    let file = std::fs::read(scene.last_increment()).unwrap();
    assert!(!file.windows(ID.len()).any(|part| part == ID.as_bytes()));
    relay.turn_to(master.address);
    client.line("SET more 1");
    scene.wait_caught_up(&master);
    let (restored, _dir) = scene.restored();
    assert_eq!(digest(&restored), digest(&master));
    assert_eq!(info(&mut client, "stats", "sync_full"), "1");
}

#[test]
fn a_stream_that_is_cut_at_each_byte_of_a_command_goes_on_there() {
    let stream = b"*2\r\n$6\r\nSELECT\r\n$1\r\n3\r\n*3\r\n$3\r\nSET\r\n$1\r\na\r\n$2\r\nxy\r\n";
    let len = stream.len() as u64;
    let says = move |_: usize, offset: u64| match offset.checked_sub(6) {
        // What was received up to offset 5 is the base.
        Some(from) if from <= len => {
            let from = usize::try_from(from).unwrap();
            let next = stream.get(from..(from + 1).min(stream.len())).unwrap_or_default();
            [b"+CONTINUE\r\n", next].concat()
        }
        _ => empty_base(ID, 5),
    };
    let (broken, _) = broken_master_that(says, "");
    let mut scene = Scene::new(&format!("redis://{broken}"), "", "");
    let durable = |scene: &Scene| scene.status()["durable"].as_u64().unwrap_or(0);
    // Within the head of the second command, and within its last value.
    for stops in [31, 54] {
        wait::until("it has come so far", wait::LONG, || durable(&scene) >= stops);
        scene.weir.kill();
        scene.weir.start_again();
    }
    wait::until("all has come", wait::LONG, || durable(&scene) == 5 + len);
    let (restored, _dir) = scene.restored();
    let mut client = restored.client();
    assert_eq!(client.line("SELECT 3"), "+OK");
    assert_eq!(client.line("GET a"), "$2 xy");
    assert_eq!(scene.status()["generations"], 1);
}

#[test]
fn a_broken_master_leaves_the_last_generation_as_it_is() {
    let master = master(&[]);
    let relay = Relay::to(master.address);
    let scene = Scene::new(&format!("redis://{}", relay.address), "", "");
    let mut client = master.client();
    client.line("SET precious 1");
    scene.wait_caught_up(&master);
    let manifest =
        || std::fs::read_to_string(scene.append_dir().join("appendonly.aof.manifest")).unwrap();
    let before = manifest();
    let (broken, joined) = broken_master();
    relay.turn_to(broken);
    wait::until("every answer was given", wait::LONG, || {
        joined.load(Ordering::Relaxed) > answers().len()
    });
    // A data set is checked beside the stream that goes on behind it.
    scene.weir.wait_log("the checksum of the master's data set is wrong");
    assert!(scene.status()["trouble"].is_string());
    assert_eq!(manifest(), before);
    let (code, said) = scene.verify();
    assert_eq!(code, Some(0), "{said}");
    relay.turn_to(master.address);
    client.line("SET more 1");
    scene.wait_caught_up(&master);
    let (restored, _dir) = scene.restored();
    assert_eq!(digest(&restored), digest(&master));
    assert_eq!(info(&mut client, "stats", "sync_full"), "1");
    wait::until("all is well", wait::LONG, || scene.status()["trouble"].is_null());
}
