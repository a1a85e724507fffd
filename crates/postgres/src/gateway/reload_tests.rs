use std::sync::Arc;

use watch::metrics::Registry;

use super::{Gateway, OpenError};
use crate::settings::{BackendSettings, Settings};

fn settings(more: &str) -> Settings {
    let text = format!(
        "{more}\n[[user]]\nname = \"ann\"\npassword = \"secret\"\n\
         [[backend]]\nname = \"a\"\nurl = \"postgresql://127.0.0.1:1\""
    );
    toml::from_str(&text).unwrap()
}

#[tokio::test]
async fn settings_that_cannot_be_used_let_in_nobody_else() {
    let control = tokio::runtime::Handle::current();
    let gateway = Gateway::open(settings(""), &Registry::new(), control).unwrap();
    let doors = gateway.doors.load_full();
    let mut wanted = settings("[[auth]]\nmethod = \"trust\"\naddress = [\"127.0.0.1\"]");
    let nowhere = BackendSettings {
        user: "weir".to_owned(),
        password_file: Some("/nowhere/password".into()),
        ..BackendSettings::new("b", "postgresql://127.0.0.1:2")
    };
    wanted.backend.push(nowhere);
    let error = gateway.reload(wanted).unwrap_err();
    assert!(matches!(error, OpenError::Start(_)), "{error}");
    assert!(Arc::ptr_eq(&doors, &gateway.doors.load_full()));
    gateway.reload(settings("")).unwrap();
    assert!(!Arc::ptr_eq(&doors, &gateway.doors.load_full()));
}
