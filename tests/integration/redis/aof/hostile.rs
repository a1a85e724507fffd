//! Masters that lie or are broken: the link is closed, and the files stay as they are.

use std::io::Write as _;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rig::wait;
use wire::resp::{Commands, Cut, Limits};

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
    ]
}

/// Listens, answers each that joins with the next answer, and closes; counts them.
fn broken_master() -> (SocketAddr, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, joined) = (listener.local_addr().unwrap(), Arc::new(AtomicUsize::new(0)));
    let counted = Arc::clone(&joined);
    std::thread::spawn(move || {
        for mut client in listener.incoming().flatten() {
            let _ = answer(&mut client, &counted);
        }
    });
    (address, joined)
}

fn answer(client: &mut std::net::TcpStream, joined: &AtomicUsize) -> std::io::Result<()> {
    let (mut commands, mut bytes) = (Commands::default(), Vec::new());
    loop {
        let mut piece = [0; 4096];
        match std::io::Read::read(client, &mut piece)? {
            0 => return Ok(()),
            read => bytes.extend_from_slice(&piece[..read]),
        }
        while let Ok(Cut::Command(len)) = commands.cut(&bytes, &Limits::default()) {
            let name = commands.command(&bytes).name().to_owned();
            bytes.drain(..len);
            match name.as_slice() {
                b"ROLE" => client.write_all(b"*3\r\n$6\r\nmaster\r\n:0\r\n*0\r\n")?,
                b"PSYNC" => {
                    let all = answers();
                    let number = joined.load(Ordering::Relaxed) % all.len();
                    client.write_all(&all[number])?;
                    joined.fetch_add(1, Ordering::Relaxed);
                    // Without this what was sent may be lost to a reset.
                    client.shutdown(std::net::Shutdown::Write)?;
                }
                b"REPLCONF" => client.write_all(b"+OK\r\n")?,
                _ => client.write_all(b"+PONG\r\n")?,
            }
        }
    }
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
