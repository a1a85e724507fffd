//! The cookies of one user (RFC 6265). All steps go to one server, so of a cookie's scope its path
//! and `Secure` decide; one for another domain than the server's is refused.

#[cfg(test)]
mod tests;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The most cookies of a user; further ones are not kept.
const COOKIES_MAX: usize = 100;
/// The most bytes of one.
const COOKIE_BYTES_MAX: usize = 8192;

/// The cookies that one user has been given.
#[derive(Debug, Clone, Default)]
pub struct Jar(Vec<Cookie>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Cookie {
    name: Vec<u8>,
    value: Vec<u8>,
    path: Vec<u8>,
    is_secure: bool,
}

/// To whom cookies go.
#[derive(Debug, Clone, Copy)]
pub struct CookieScope<'a> {
    pub host: &'a str,
    /// The target of the request.
    pub target: &'a [u8],
    /// Whether it goes by TLS.
    pub is_tls: bool,
}

impl CookieScope<'_> {
    fn path(&self) -> &[u8] {
        self.target.split(|byte| b"?#".contains(byte)).next().unwrap_or_default()
    }

    /// The path of a cookie that says none (section 5.1.4).
    fn usual_path(&self) -> &[u8] {
        let path = self.path();
        match path.iter().rposition(|byte| *byte == b'/') {
            Some(end) if end > 0 && path.starts_with(b"/") => &path[..end],
            _ => b"/",
        }
    }
}

impl Jar {
    /// A new user has none.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Takes in a `Set-Cookie`; what is not a cookie is left out, as browsers do.
    pub fn take_in(&mut self, line: &[u8], asked: &CookieScope<'_>, now: SystemTime) {
        let mut parts = line.split(|byte| *byte == b';');
        let Some((name, value)) = pair(parts.next().unwrap_or_default()) else { return };
        if name.is_empty() || line.len() > COOKIE_BYTES_MAX {
            return;
        }
        let mut path = asked.usual_path();
        let (mut is_secure, mut age, mut expired) = (false, None, false);
        for part in parts {
            let (key, of) = pair(part).unwrap_or((part.trim_ascii(), b""));
            match key.to_ascii_lowercase().as_slice() {
                b"path" if of.starts_with(b"/") => path = of,
                b"secure" => is_secure = true,
                b"max-age" => age = std::str::from_utf8(of).ok().and_then(|of| of.parse().ok()),
                b"expires" => expired = date(of).is_some_and(|date| date <= now),
                b"domain" if !is_within(asked.host, of) => return,
                _ => {}
            }
        }
        self.0.retain(|cookie| cookie.name != name || cookie.path != path);
        // Max-Age comes before Expires (section 5.3).
        let is_over = age.map_or(expired, |age: i64| age <= 0);
        if !is_over && self.0.len() < COOKIES_MAX {
            let [name, value, path] = [name, value, path].map(<[u8]>::to_vec);
            self.0.push(Cookie { name, value, path, is_secure });
            // Longer paths come first (section 5.4); a sort that is stable keeps the rest in order.
            self.0.sort_by_key(|cookie| std::cmp::Reverse(cookie.path.len()));
        }
    }

    /// Appends the header line for a request, where there are cookies for it.
    pub fn put(&self, asked: &CookieScope<'_>, out: &mut Vec<u8>) {
        let mut separator: &[u8] = b"Cookie: ";
        let fits = |cookie: &&Cookie| {
            is_below(asked.path(), &cookie.path) && (asked.is_tls || !cookie.is_secure)
        };
        for cookie in self.0.iter().filter(fits) {
            for part in [separator, &cookie.name, b"=", &cookie.value] {
                out.extend_from_slice(part);
            }
            separator = b"; ";
        }
        if separator == b"; " {
            out.extend_from_slice(b"\r\n");
        }
    }
}

fn pair(part: &[u8]) -> Option<(&[u8], &[u8])> {
    let at = part.iter().position(|byte| *byte == b'=')?;
    Some((part[..at].trim_ascii(), part[at + 1..].trim_ascii()))
}

/// Whether a request's path is a cookie's, or below it (section 5.1.4).
fn is_below(path: &[u8], cookie: &[u8]) -> bool {
    match path.strip_prefix(cookie) {
        None => false,
        Some(rest) => rest.is_empty() || cookie.ends_with(b"/") || rest.starts_with(b"/"),
    }
}

/// Whether a host is a domain, or in it (section 5.1.3).
fn is_within(host: &str, domain: &[u8]) -> bool {
    let domain = domain.strip_prefix(b".").unwrap_or(domain).to_ascii_lowercase();
    let host = host.to_ascii_lowercase();
    match host.as_bytes().strip_suffix(&*domain) {
        None => false,
        Some(rest) => domain.is_empty() || rest.is_empty() || rest.ends_with(b"."),
    }
}

/// A date in any of the shapes that cookies have: `Thu, 01 Jan 1970 00:00:00 GMT`.
fn date(text: &[u8]) -> Option<SystemTime> {
    const MONTHS: [&str; 12] =
        ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
    let text = std::str::from_utf8(text).ok()?.to_ascii_lowercase();
    let (mut day, mut month, mut year, mut seconds) = (None, None, None, 0);
    for word in text.split([' ', ',', '-']).filter(|word| !word.is_empty()) {
        if word.contains(':') {
            let parts = word.split(':').map(|part| part.parse::<u64>().ok().filter(|p| *p < 60));
            seconds = parts.take(3).try_fold(0, |sum, part| Some(sum * 60 + part?))?;
        } else if let Some(at) = MONTHS.iter().position(|name| word.starts_with(name)) {
            month = month.or(Some(at as u64 + 1));
        } else if let Ok(number) = word.parse::<u64>() {
            match day {
                None => day = Some(number).filter(|day| (1..=31).contains(day)),
                Some(_) => year = year.or(Some(number)),
            }
        }
    }
    let year = match year? {
        short @ 0..=69 => short + 2000,
        short @ 70..=99 => short + 1900,
        long @ 1601..=9999 => long,
        _ => return None,
    };
    if year < 1970 {
        return Some(UNIX_EPOCH);
    }
    // Days from 1970 on, with March as the first month (Howard Hinnant's civil calendar).
    let (day, month) = (day?, month?);
    let shifted = if month > 2 { year } else { year - 1 };
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let days = shifted * 365 + shifted / 4 - shifted / 100 + shifted / 400 + of_year - 719_468;
    Some(UNIX_EPOCH + Duration::from_secs(days * 86_400 + seconds))
}
