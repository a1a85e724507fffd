use std::sync::Arc;

use flow::front::Front as _;
use watch::metrics::Registry;

use super::Gateway;
use crate::settings::{BackendSettings, Settings};
use crate::shared::OpenError;

fn settings(more: &str) -> Settings {
    let text = format!(
        "{more}\n[[user]]\nname = \"ann\"\npassword = \"secret\"\n\
         [[backend]]\nname = \"a\"\nurl = \"postgresql://127.0.0.1:1\""
    );
    toml::from_str(&text).unwrap()
}

fn open() -> Arc<Gateway> {
    let control = tokio::runtime::Handle::current();
    Gateway::open(settings(""), &Registry::new(), control).unwrap()
}

#[tokio::test]
async fn settings_that_cannot_be_used_let_in_nobody_else() {
    let gateway = open();
    let doors = gateway.shared.logins.doors.load_full();
    let mut wanted = settings("[[auth]]\nmethod = \"trust\"\naddress = [\"127.0.0.1\"]");
    let nowhere = BackendSettings {
        user: "weir".to_owned(),
        password_file: Some("/nowhere/password".into()),
        ..BackendSettings::new("b", "postgresql://127.0.0.1:2")
    };
    wanted.backend.push(nowhere);
    let Err(error) = gateway.prepare(wanted) else {
        panic!("taken");
    };
    assert!(matches!(error, OpenError::Start(_)), "{error}");
    assert!(Arc::ptr_eq(&doors, &gateway.shared.logins.doors.load_full()));
    gateway.prepare(settings("")).unwrap().put_in_force();
    assert!(!Arc::ptr_eq(&doors, &gateway.shared.logins.doors.load_full()));
}
