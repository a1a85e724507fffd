//! What a server's `COMMAND` says takes commands away from Weir's own list, and never adds any.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use rig::redis::{Redis, valkeys};
use rig::wait;
use rig::weir::{Setup, Weir};
use wire::resp::{CommandFrame, Commands, Limits, put_bulk};

use super::scene::{self, client};

/// What the log says where a server takes something away.
const TAKEN: &str = "its COMMAND has commands otherwise than Weir's list";

/// What a server says of its commands: flags, and where keys are.
type CommandTable = BTreeMap<&'static str, (Vec<&'static str>, [i64; 3])>;

/// A server that says what it is told to of its commands, and OK to all else.
struct Toy {
    address: SocketAddr,
    kept: Arc<Mutex<ToyState>>,
}

#[derive(Default)]
struct ToyState {
    /// Nothing of `COMMAND` is answered without it.
    said: Option<CommandTable>,
    /// The connections by their numbers, each with the names of the commands that came.
    came: Vec<Vec<String>>,
    sockets: Vec<TcpStream>,
}

impl Toy {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let kept = Arc::new(Mutex::new(ToyState::default()));
        let of_clients = Arc::clone(&kept);
        // It ends with the process of the tests.
        std::thread::spawn(move || {
            for socket in listener.incoming().map_while(Result::ok) {
                let kept = Arc::clone(&of_clients);
                let mut all = kept.lock().unwrap();
                let number = all.came.len();
                all.came.push(Vec::new());
                all.sockets.push(socket.try_clone().unwrap());
                drop(all);
                std::thread::spawn(move || serve(socket, number, &kept));
            }
        });
        Self { address, kept }
    }

    fn weir(&self) -> Weir {
        let backend =
            format!("[[redis.backend]]\nname = \"toy\"\nurl = \"redis://{}\"", self.address);
        let table = format!("[redis]\nlisten = \"{{redis}}\"\n{backend}");
        Setup::new().table(&table).start()
    }

    fn says(&self, said: &CommandTable) {
        self.kept.lock().unwrap().said = Some(said.clone());
    }

    /// Ends all connections, as a restart does.
    fn restarts(&self) {
        for socket in self.kept.lock().unwrap().sockets.drain(..) {
            let _ = socket.shutdown(Shutdown::Both);
        }
    }

    /// Connections on which a command came, each with all that came there.
    fn with(&self, name: &str) -> Vec<Vec<String>> {
        let all = self.kept.lock().unwrap();
        all.came.iter().filter(|came| came.iter().any(|of| of == name)).cloned().collect()
    }
}

fn serve(mut socket: TcpStream, number: usize, kept: &Mutex<ToyState>) {
    let (mut rest, mut piece) = (Vec::new(), [0; 4096]);
    while let Ok(read) = socket.read(&mut piece) {
        if read == 0 {
            return;
        }
        rest.extend_from_slice(&piece[..read]);
        let mut commands = Commands::default();
        loop {
            let len = match commands.cut(&rest, &Limits::default()) {
                Ok(CommandFrame::Command(len)) => len,
                Ok(CommandFrame::Nothing(len)) if len > 0 => {
                    rest.drain(..len);
                    continue;
                }
                _ => break,
            };
            let words: Vec<String> = commands
                .command(&rest)
                .iter()
                .map(|word| String::from_utf8_lossy(word).to_uppercase())
                .collect();
            rest.drain(..len);
            let mut all = kept.lock().unwrap();
            all.came[number].push(words[0].clone());
            let answer = answer(&words, all.said.as_ref());
            drop(all);
            match answer {
                Some(answer) => drop(socket.write_all(&answer)),
                None => return,
            }
        }
    }
}

fn answer(words: &[String], said: Option<&CommandTable>) -> Option<Vec<u8>> {
    let (mut out, said) = match &*words[0] {
        "COMMAND" => (Vec::new(), said?),
        "PING" => return Some(b"+PONG\r\n".to_vec()),
        _ => return Some(b"+OK\r\n".to_vec()),
    };
    let one = |out: &mut Vec<u8>, name: &str, (flags, keys): &(Vec<&str>, [i64; 3])| {
        out.extend_from_slice(b"*7\r\n");
        put_bulk(out, name.to_lowercase().as_bytes());
        let flags_said: String = flags.iter().map(|flag| format!("+{flag}\r\n")).collect();
        let keys: String = keys.iter().map(|key| format!(":{key}\r\n")).collect();
        let rest = format!(":-2\r\n*{}\r\n{flags_said}{keys}*0\r\n", flags.len());
        out.extend_from_slice(rest.as_bytes());
    };
    match words.get(2) {
        Some(name) => {
            out.extend_from_slice(b"*1\r\n");
            match said.get(&**name) {
                Some(of) => one(&mut out, name, of),
                None => out.extend_from_slice(b"*-1\r\n"),
            }
        }
        None => {
            out.extend_from_slice(format!("*{}\r\n", said.len()).as_bytes());
            said.iter().for_each(|(name, of)| one(&mut out, name, of));
        }
    }
    Some(out)
}

/// As servers have these commands.
fn as_ever() -> CommandTable {
    CommandTable::from([
        ("GET", (vec!["readonly", "fast"], [1, 1, 1])),
        ("SET", (vec!["write"], [1, 1, 1])),
        ("INCR", (vec!["write"], [1, 1, 1])),
        ("DECR", (vec!["write"], [1, 1, 1])),
        ("MSET", (vec!["write"], [1, -1, 2])),
    ])
}

#[test]
fn a_command_that_a_server_has_otherwise_shares_no_connection() {
    let toy = Toy::start();
    let weir = toy.weir();
    let mut ann = client(&weir);
    // Until the server has answered, the list holds.
    for line in ["SET k 1", "GET k", "INCR k", "DECR k", "MSET k 1"] {
        assert_eq!(ann.line(line), "+OK");
    }
    let shared = toy.with("SET");
    assert_eq!(shared.len(), 1);
    assert!(shared[0].ends_with(&["SET", "GET", "INCR", "DECR", "MSET"].map(str::to_owned)));

    let mut said = as_ever();
    said.insert("GET", (vec!["fast"], [1, 1, 1]));
    said.insert("INCR", (vec!["write", "blocking"], [1, 1, 1]));
    said.insert("MSET", (vec!["write"], [2, -1, 2]));
    said.remove("DECR");
    toy.says(&said);
    toy.restarts();
    wait::until("it is dialled anew", wait::LONG, || {
        ann.line("SET k 1");
        weir.log().contains(TAKEN)
    });
    assert_eq!(ann.line("GET k"), "+OK");
    assert_eq!(ann.line("MSET k 1"), "+OK");
    assert_eq!(ann.line("SET k 1"), "+OK");
    let refused = ann.line("INCR k");
    assert!(refused.starts_with("-ERR weir: INCR is refused: it may block"), "{refused}");
    assert_eq!(ann.line("DECR k"), "-ERR unknown command 'DECR'");
    for name in ["GET", "MSET"] {
        let own = toy.with(name).pop().expect("it came");
        assert_eq!(own, ["PING", name], "it has a connection of its own");
    }
    for line in ["MULTI", "GET k", "EXEC"] {
        assert_eq!(ann.line(line), "+OK");
    }
    let own = toy.with("EXEC").pop().expect("it came");
    assert!(own.ends_with(&["MULTI", "GET", "EXEC"].map(str::to_owned)), "it is given back");
    assert_eq!(ann.line("MULTI"), "+OK");
    assert_eq!(ann.line("DECR k"), "-ERR unknown command 'DECR'");
    assert!(ann.line("EXEC").starts_with("-EXECABORT"));
    let large = "x".repeat(300_000);
    assert_eq!(ann.ask(&["SET", "k", &large]), "+OK");

    // What it says after another start holds from then on.
    toy.says(&as_ever());
    wait::until("it is as ever", wait::LONG, || {
        toy.restarts();
        ann.line("SET k 1");
        ann.line("GET k");
        toy.with("GET").pop().is_some_and(|came| came.contains(&"SET".to_owned()))
    });
    assert_eq!(ann.line("DECR k"), "+OK");
}

#[test]
fn nothing_is_taken_away_by_servers_as_they_are() {
    let mut servers = vec![Redis::start()];
    servers.extend(valkeys().iter().map(|program| Redis::start_as(program, &[])));
    let all: Vec<&Redis> = servers.iter().collect();
    let weir = scene::weir(&all, "", "");
    let mut ann = client(&weir);
    assert_eq!(ann.line("DBSIZE"), ":0");
    for server in &servers {
        wait::until("it is asked", wait::LONG, || {
            server.client().line("INFO commandstats").contains("cmdstat_command:calls=1")
        });
    }
    // Their answers are read once all of them are asked again on other connections.
    for n in 0..100 {
        assert_eq!(ann.ask(&["SET", &format!("k{n}"), "x"]), "+OK");
        assert_eq!(ann.ask(&["GET", &format!("k{n}")]), "$1 x");
    }
    assert!(!weir.log().contains(TAKEN), "{}", weir.log());
}
