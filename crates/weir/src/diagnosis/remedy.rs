//! What to type where something is wrong.

use super::status::Backend;

/// What asks whether a backend of InfluxDB lives.
pub fn ping(backend: &Backend) -> String {
    match backend.url.as_str() {
        "" => "df -h; journalctl -u weir -n 50".to_owned(),
        url => format!("curl -i {}/ping", quoted(url.trim_end_matches('/'))),
    }
}

/// What asks whether a PostgreSQL server lives.
pub fn pg_isready(address: &str) -> String {
    match address.rsplit_once(':') {
        Some((host, port)) => {
            let host = host.trim_matches(['[', ']']);
            format!("pg_isready -h {} -p {}", quoted(host), quoted(port))
        }
        None => format!("pg_isready -h {}", quoted(address)),
    }
}

/// What asks whether a Redis server lives.
pub fn redis_ping(url: &str) -> String {
    format!("redis-cli -u {} ping", quoted(url))
}

/// A word that a shell takes as one, whatever is in it.
pub fn quoted(word: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:/@[]".contains(&byte);
    match !word.is_empty() && word.bytes().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}

/// What helps a backend that needs somebody, by its reason.
pub fn stopped(backend: &Backend) -> String {
    let why = backend.reason.as_deref().unwrap_or_default();
    let name = &backend.name;
    if why.contains("dead letters") {
        format!("weir dead-letters show {name}, then replay or drop")
    } else if why.contains("401") || why.contains("403") {
        format!("put the credentials of {name} right; then systemctl reload weir")
    } else {
        ping(backend)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_from_a_file_are_one_word_of_a_shell() {
        let url = "http://h/$(reboot)'x".to_owned();
        let odd = Backend { url, ..Backend::default() };
        assert_eq!(ping(&odd), "curl -i 'http://h/$(reboot)'\\''x'/ping");
        let plain = Backend { url: "http://10.0.0.2:8086/".to_owned(), ..Backend::default() };
        assert_eq!(ping(&plain), "curl -i http://10.0.0.2:8086/ping");
        assert_eq!(pg_isready("[::1]:5432"), "pg_isready -h ::1 -p 5432");
        assert_eq!(redis_ping("redis://a b"), "redis-cli -u 'redis://a b' ping");
    }
}
