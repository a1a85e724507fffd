//! `/debug/vars`: the figures that programs which watch InfluxDB 1.x read, in its shape
//! (`services/httpd/handler.go`, `serveExpvar`). There is what Weir counts, under InfluxDB's names,
//! and nothing in the place of what it does not have; all figures are in `/metrics` of the admin
//! port. Arguments, addresses of backends and users are not among them.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use http::header::{CONTENT_TYPE, HeaderValue};
use http::request::Parts;
use http::{Method, StatusCode};
use serde_json::{Map, Value, json};
use store::query::show::Figures;
use watch::process;
use wire::influxql::rfc3339_short;

use super::answer::{self, Answer};
use super::auth::User;
use super::credentials::Asker;
use super::gateway::Gateway;
use super::parameters::Parameters;
use super::{Front, gzip};
use crate::embedded::{Embedded, Network};

/// How long counting waits for its turn among the queries.
const TURN_WAIT: Duration = Duration::from_secs(5);

/// Answers `GET /debug/vars`. Where there are users it is for these alone, each seeing the
/// databases that are theirs.
pub async fn serve(front: &Front, peer: IpAddr, head: &Parts) -> Answer {
    debug_assert!(head.method == Method::GET, "other methods are refused before");
    match document(front, peer, head).await {
        Err(refusal) => refusal,
        Ok(document) => {
            let mut answer = answer::json(StatusCode::OK, document);
            let kind = HeaderValue::from_static("application/json; charset=utf-8");
            answer.headers_mut().insert(CONTENT_TYPE, kind);
            gzip::finished(answer, &head.headers, &front.gateway.control).await
        }
    }
}

async fn document(front: &Front, peer: IpAddr, head: &Parts) -> Result<String, Answer> {
    let gateway = &front.gateway;
    let mut parameters = Parameters::default();
    parameters.extend(head.uri.query().unwrap_or_default().as_bytes());
    let (name, password) = (parameters.get("u"), parameters.get("p"));
    let asker = Asker { peer, database: "" };
    let user = gateway.auth.user(name.into(), password.into(), &head.headers, &asker).await?;

    let mut all = of_process();
    if let Ok(Some(embedded)) = gateway.embedded() {
        let active = json!({ "queriesActive": embedded.queries().active() });
        all.insert("queryExecutor".to_owned(), point("queryExecutor", Value::Null, active));
        all.extend(of_databases(gateway, embedded, user, peer).await?);
    }
    all.extend(of_front(gateway));
    Ok(lines(&all))
}

/// One key a line, as InfluxDB writes it.
fn lines(all: &Map<String, Value>) -> String {
    let lines = all.iter().map(|(key, value)| format!("{}: {value}", json!(key)));
    format!("{{\n{}\n}}\n", lines.collect::<Vec<_>>().join(",\n"))
}

/// A statistic as InfluxDB's `monitor` has it.
fn point(name: &str, tags: Value, values: Value) -> Value {
    json!({ "name": name, "tags": tags, "values": values })
}

/// Times, and memory: that in RAM as what was had of the system, that which no file backs as the
/// heap. Nothing collects garbage.
fn of_process() -> Map<String, Value> {
    let now_ns = super::now_ns();
    let started_ns = process::start_time().map_or(now_ns, |seconds| (seconds * 1e9) as i64);
    let mut memory = Map::new();
    let resident = process::resident_memory().map(|bytes| ("Sys", bytes));
    let anonymous = process::anonymous_memory().map(|bytes| ("HeapSys", bytes));
    for (name, bytes) in resident.into_iter().chain(anonymous) {
        memory.insert(name.to_owned(), json!(bytes));
    }
    memory.insert("NumGC".to_owned(), json!(0));
    memory.insert("PauseTotalNs".to_owned(), json!(0));

    let mut all = Map::new();
    let system = json!({
        "currentTime": rfc3339_short(now_ns),
        "started": rfc3339_short(started_ns),
        "uptime": (now_ns - started_ns).max(0) / 1_000_000_000,
    });
    all.insert("system".to_owned(), system);
    all.insert("cmdline".to_owned(), json!(["weir"]));
    let memory = Value::Object(memory);
    all.insert("runtime".to_owned(), point("runtime", json!({}), memory.clone()));
    all.insert("memstats".to_owned(), memory);
    all
}

/// What came by HTTP since the start.
fn of_front(gateway: &Gateway) -> Map<String, Value> {
    let metrics = &gateway.metrics;
    let accepted = metrics.accepted.get();
    let mut all = Map::new();
    let write = json!({ "pointReq": accepted, "writeDrop": metrics.points_refused.get() });
    all.insert("write".to_owned(), point("write", Value::Null, write));
    let bind = gateway.fixed.listen.first().map(ToString::to_string);
    let bind = bind.unwrap_or_default();
    let values = json!({
        "req": metrics.answers(|_| true),
        "clientError": metrics.answers(|status| (400..500).contains(&status)),
        "serverError": metrics.answers(|status| status >= 500),
        "authFail": metrics.answers(|status| status == 401),
        "pointsWrittenOK": accepted,
        "pointsWrittenDropped": metrics.points_dropped(),
    });
    let key = format!("httpd:{bind}");
    all.insert(key, point("httpd", json!({ "bind": bind }), values));
    all
}

/// Measurements and series of each database, which are counted on another thread, in the turn of a
/// query.
async fn of_databases(
    gateway: &Gateway,
    embedded: &Arc<Embedded>,
    user: Option<Arc<User>>,
    peer: IpAddr,
) -> Result<Map<String, Value>, Answer> {
    let turns = &embedded.queries().turns;
    let turn = turns.take(turns.arrive(Network::of(peer)));
    let Ok(turn) = tokio::time::timeout(TURN_WAIT, turn).await else {
        return Err(answer::unavailable("queries take all turns", 1));
    };
    let store = Arc::clone(embedded.store());
    let count = move || {
        let _turn = turn;
        let snapshot = store.snapshot();
        let mut all = Map::new();
        for db in snapshot.databases() {
            let seen = user.as_ref().is_none_or(|user| user.may_read(&db) || user.may_write(&db));
            let Some(figures) = Figures::of(&snapshot, &db).filter(|_| seen) else { continue };
            let Figures { measurements, series } = figures;
            let values = json!({ "numMeasurements": measurements, "numSeries": series });
            let tags = json!({ "database": db });
            all.insert(format!("database:{db}"), point("database", tags, values));
        }
        all
    };
    let counted = gateway.control.spawn_blocking(count).await;
    counted.map_err(|_| answer::unavailable("Weir is stopping", 1))
}
