//! The endpoints, parameters and credentials of each kind of backend.

use std::io::Read as _;

use super::fake::{Act, Fake, RecordedRequest, ok};
use super::rig::{Rig, backend, lines};
use crate::settings::{BackendKind, BackendTable, Secret};

async fn first_write(settings: BackendTable, fake: &Fake, rp: &str) -> RecordedRequest {
    let rig = Rig::start(&[settings]).await;
    rig.write("d b", rp, &lines(0, 3)).await;
    rig.settled("a").await;
    fake.writes()[0].clone()
}

#[tokio::test]
async fn influxdb_1_with_a_user_and_a_path() {
    let fake = Fake::start(|_| ok()).await;
    let settings = BackendTable {
        url: format!("{}/behind/a/proxy/", fake.url),
        user: "u".into(),
        password: Secret::new("p"),
        ..backend("a", &fake)
    };
    let seen = first_write(settings, &fake, "r").await;
    assert_eq!(seen.path, "/behind/a/proxy/write");
    assert_eq!((seen.parameter("db"), seen.parameter("rp")), ("d b", "r"));
    assert_eq!(seen.headers["authorization"], "Basic dTpw");
    assert_eq!(seen.lines(), lines(0, 3));
}

#[tokio::test]
async fn influxdb_2_with_a_token_creates_its_bucket() {
    let mut created = false;
    let fake = Fake::start(move |seen| match seen.path.as_str() {
        "/api/v2/orgs" => Act::Answer(200, "{\"orgs\":[{\"id\":\"77\"}]}".into()),
        "/api/v2/buckets" => {
            created = true;
            Act::Answer(201, "{}".into())
        }
        _ if created => ok(),
        _ => {
            let missing = "{\"code\":\"not found\",\"message\":\"bucket \\\"d b/r\\\" not found\"}";
            Act::Answer(404, missing.into())
        }
    })
    .await;
    let settings = BackendTable {
        kind: BackendKind::Influxdb2,
        org: "o".into(),
        token: Secret::new("t"),
        ..backend("a", &fake)
    };
    let seen = first_write(settings, &fake, "r").await;
    assert_eq!(seen.path, "/api/v2/write");
    assert_eq!((seen.parameter("org"), seen.parameter("bucket")), ("o", "d b/r"));
    assert_eq!(seen.parameter("precision"), "ns");
    assert_eq!(seen.headers["authorization"], "Token t");
    let all = fake.seen.lock().unwrap().clone();
    let bucket = all.iter().find(|seen| seen.path == "/api/v2/buckets").unwrap();
    let body: serde_json::Value = serde_json::from_slice(&bucket.body).unwrap();
    assert_eq!((body["orgID"].as_str(), body["name"].as_str()), (Some("77"), Some("d b/r")));
}

#[tokio::test]
async fn victoria_metrics_with_compression() {
    let fake = Fake::start(|_| ok()).await;
    let settings =
        BackendTable { kind: BackendKind::VictoriaMetrics, gzip: true, ..backend("a", &fake) };
    let seen = first_write(settings, &fake, "").await;
    assert_eq!((seen.path.as_str(), seen.parameter("rp")), ("/write", ""));
    assert_eq!(seen.headers["content-encoding"], "gzip");
    let mut text = String::new();
    flate2::read::GzDecoder::new(seen.body.as_slice()).read_to_string(&mut text).unwrap();
    assert_eq!(text.lines().collect::<Vec<_>>(), lines(0, 3));
}

#[tokio::test]
async fn a_changed_password_file_is_read_again() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("password");
    std::fs::write(&file, "old\n").unwrap();
    let fake = Fake::start(|seen| match seen.headers["authorization"].as_str() {
        "Basic dTpuZXc=" => ok(),
        _ => Act::Answer(401, "{\"error\":\"authorization failed\"}".into()),
    })
    .await;
    let settings =
        BackendTable { user: "u".into(), password_file: Some(file.clone()), ..backend("a", &fake) };
    let rig = Rig::start(&[settings]).await;
    rig.write("d", "r", &lines(0, 3)).await;
    rig.until("a", "stopped", |status| status.state == crate::backends::Phase::Stopped).await;
    std::fs::write(&file, "new\n").unwrap();
    rig.settled("a").await;
}
