//! Clients that ask for much and do not read it: they wait for themselves, and for nobody else.

use std::io::Write as _;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use rig::http::{Connection, Message, Request};
use rig::wait;
use rig::weir::{Setup, Weir};
use socket2::{Domain, SockRef, Socket, Type};

use super::{must_run, rows, with};

const LARGE: &str = "SELECT * FROM load";
/// How long a query may take that has nobody before it, on a machine that does other things, too.
const SOON: Duration = Duration::from_secs(5);

/// 20,000 points of 1,000 bytes, and two threads for queries.
fn store(influx: &str, tables: &str) -> Weir {
    let weir = with(|setup| setup.store("query-threads = 2").influx(influx).table(tables));
    let text = "x".repeat(1_000);
    for part in 0..10 {
        let line = |n: u64| format!("load v=\"{text}\",n={n}i {}\n", part * 2_000 + n);
        weir.must_write("db", &(0..2_000).map(line).collect::<String>());
    }
    weir
}

fn request(pairs: &str) -> Request {
    request_of(LARGE, pairs)
}

fn request_of(q: &str, pairs: &str) -> Request {
    Request::get(&format!("/query?db=db&epoch=ns&q={}{pairs}", rig::http::escape(q)))
}

/// Asks from an address and reads nothing.
fn ask(address: SocketAddr, from: [u8; 4], request: &Request) -> TcpStream {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    socket.bind(&SocketAddr::from((IpAddr::from(from), 0)).into()).unwrap();
    socket.connect(&address.into()).unwrap();
    let mut stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(wait::LONG)).unwrap();
    stream.write_all(&request.encode()).unwrap();
    stream
}

fn ask_here(weir: &Weir, request: &Request) -> TcpStream {
    ask(weir.http, [127, 0, 0, 1], request)
}

/// Reads an answer, as quickly as others do.
fn read(stream: TcpStream) -> std::io::Result<Message> {
    SockRef::from(&stream).set_recv_buffer_size(1 << 20)?;
    Connection::over(stream).answer(false)
}

fn parked(weir: &Weir) -> f64 {
    weir.metrics().sum("weir_influx_answers_parked", &[])
}

fn ended(weir: &Weir) -> f64 {
    weir.metrics().sum("weir_influx_answers_ended_unread_total", &[])
}

fn taken(weir: &Weir) -> f64 {
    weir.metrics().sum("weir_influx_memory_bytes", &[("of", "answers")])
}

fn until_parked(weir: &Weir, count: usize) {
    wait::until("the answers are parked", wait::LONG, || parked(weir) == count as f64);
}

/// How many queries are listed with a status.
fn listed(weir: &Weir, status: &str) -> usize {
    rows(weir, "SHOW QUERIES").iter().filter(|row| row[4] == status).count()
}

#[test]
fn eight_answers_that_nobody_reads_or_forty_stop_no_other_query() {
    let _alone = rig::machine::alone();
    let weir = store("", "[influx.timeouts]\nwrite = \"120s\"");
    let mut unread = Vec::new();
    for count in [8, 40] {
        unread.resize_with(count, || ask_here(&weir, &request("")));
        wait::until("eight are begun", wait::LONG, || taken(&weir) >= f64::from(8 * (256 << 10)));
        let begun = Instant::now();
        assert_eq!(rows(&weir, "SELECT count(v) FROM load")[0][1], 20_000);
        assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
        until_parked(&weir, count);
        assert_eq!(listed(&weir, "parked"), count);
        assert!(taken(&weir) < (count << 20) as f64, "{} for {count}", taken(&weir));
    }
    // Threads of the pool that are idle end in their time.
    wait::until("no thread is held", wait::LONG, || {
        weir.metrics().sum("process_threads", &[]) < 40.0
    });
    assert_eq!(parked(&weir), 40.0);
    drop(unread);
    wait::until("all is given back", wait::LONG, || taken(&weir) == 0.0 && parked(&weir) == 0.0);
    assert_eq!(listed(&weir, "parked"), 0);
}

#[test]
fn a_parked_answer_that_is_read_on_is_the_same_byte_for_byte() {
    let weir = store("", "[influx.timeouts]\nwrite = \"120s\"");
    let csv = |pairs| request(pairs).header("Accept", "application/csv");
    let forms = [
        request(""),
        csv(""),
        request("&chunked=true&chunk_size=700"),
        request("&chunked=true&chunk_size=1000000"),
        request("&pretty=true"),
        request("").header("Accept-Encoding", "gzip"),
        request_of("SELECT n, v FROM load GROUP BY *; SELECT v FROM load; SHOW SERIES", ""),
        request_of("SELECT last(n), v FROM load WHERE time < 20000 GROUP BY time(1ns)", ""),
    ];
    for (at, form) in forms.iter().enumerate() {
        let whole = rig::http::send(weir.http, form).unwrap();
        assert_eq!(whole.status(), 200);
        let gzip = at == 5;
        // What compresses well is in the system's buffers, read or not.
        let unread: Vec<TcpStream> = (0..3).map(|_| ask_here(&weir, form)).collect();
        if !gzip {
            until_parked(&weir, unread.len());
        }
        for stream in unread {
            let answer = read(stream).unwrap();
            assert_eq!(answer.status(), 200);
            assert!(answer.body == whole.body, "form {at}: {} bytes", answer.body.len());
        }
        until_parked(&weir, 0);
    }
}

#[test]
fn clients_that_share_turns_by_their_addresses_hear_right_answers() {
    let weir = store("", "");
    let whole = rig::http::send(weir.http, &request("")).unwrap();
    let reader = |n: u8| {
        let stream = ask(weir.http, [127, 0, 0, 2 + n % 3], &request(""));
        std::thread::spawn(move || read(stream).unwrap())
    };
    let readers: Vec<_> = (0..24).map(reader).collect();
    for reader in readers {
        let answer = reader.join().unwrap();
        let (status, bytes) = (answer.status(), answer.body.len());
        assert!(answer.body == whole.body, "{status}, {bytes} of {} bytes", whole.body.len());
    }
}

#[test]
fn an_answer_that_is_never_read_ends_at_the_write_timeout() {
    let weir = store("", "[influx.timeouts]\nwrite = \"2s\"");
    let unread: Vec<TcpStream> = (0..8).map(|_| ask_here(&weir, &request(""))).collect();
    until_parked(&weir, 8);
    until_parked(&weir, 0);
    let slow = weir.metrics().sum("weir_connections_slow_total", &[("phase", "write")]);
    assert_eq!((slow, ended(&weir)), (8.0, 0.0));
    wait::until("the queries have ended", wait::LONG, || {
        listed(&weir, "parked") == 0 && listed(&weir, "killed") == 0 && taken(&weir) == 0.0
    });
    for stream in unread {
        assert!(read(stream).is_err(), "it is not a whole answer");
    }
}

#[test]
fn so_many_answers_may_be_unread_and_who_has_most_of_them_loses_the_oldest() {
    let weir = store("unread-answers-max = 5", "");
    let lone = ask(weir.http, [127, 0, 0, 9], &request(""));
    until_parked(&weir, 1);
    let crowd: Vec<TcpStream> = (0..12).map(|_| ask_here(&weir, &request(""))).collect();
    wait::until("eight have been ended", wait::LONG, || ended(&weir) == 8.0);
    until_parked(&weir, 5);
    let whole = rig::http::send(weir.http, &request("")).unwrap();
    assert!(read(lone).unwrap().body == whole.body);
    let good: Vec<_> = crowd.into_iter().flat_map(read).collect();
    assert_eq!(good.len(), 4);
    assert!(good.iter().all(|answer| answer.body == whole.body));
}

#[test]
fn a_parked_query_is_killed_and_its_client_hears_why() {
    let weir = store("", "");
    let unread = ask_here(&weir, &request(""));
    until_parked(&weir, 1);
    let id = rows(&weir, "SHOW QUERIES").iter().find(|row| row[4] == "parked").unwrap()[0].clone();
    must_run(&weir, &format!("KILL QUERY {id}"));
    wait::until("it is listed no more", wait::LONG, || {
        listed(&weir, "parked") + listed(&weir, "killed") == 0
    });
    let answer = read(unread).unwrap();
    assert!(answer.text().contains("query interrupted"));
}

#[test]
fn answers_of_a_backend_that_nobody_reads_are_bounded_as_well() {
    let behind = store("", "");
    let front = Setup::new()
        .backend("behind", &format!("http://{}", behind.http))
        .influx("unread-answers-max = 3")
        .start();
    let unread: Vec<TcpStream> = (0..8).map(|_| ask_here(&front, &request(""))).collect();
    wait::until("five have been ended", wait::LONG, || ended(&front) == 5.0);
    until_parked(&front, 3);
    let answer = front.query("SELECT count(v) FROM load", &[("db", "db")]);
    assert!(answer.text().contains("20000"), "{}", answer.text());
    let whole = rig::http::send(behind.http, &request("")).unwrap();
    let good: Vec<_> = unread.into_iter().flat_map(read).collect();
    assert_eq!(good.len(), 3);
    assert!(good.iter().all(|answer| answer.body == whole.body));
    wait::until("all is given back", wait::LONG, || taken(&front) == 0.0);
}
