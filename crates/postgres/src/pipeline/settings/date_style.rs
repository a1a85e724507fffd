//! `DateStyle` is two settings in one: how dates are written, and the order of day and month. A
//! value that names one of them leaves the other as it is (PostgreSQL's `check_datestyle`).

/// The value that `set`, as SQL has it, leads to where `before` holds; `None` when it says all
/// there is to say.
pub(super) fn joined(before: &str, set: &str) -> Option<String> {
    let (before, set) = (Parts::of(before), Parts::of(set));
    if set.is_default {
        return None;
    }
    match (before, set) {
        (Parts { style: Some(style), .. }, Parts { style: None, order: Some(order), .. })
        | (Parts { order: Some(order), .. }, Parts { style: Some(style), order: None, .. }) => {
            Some(format!("'{style}, {order}'"))
        }
        _ => None,
    }
}

#[derive(Default)]
struct Parts {
    style: Option<&'static str>,
    order: Option<&'static str>,
    /// What it does not name is the server's own value.
    is_default: bool,
}

impl Parts {
    fn of(value: &str) -> Self {
        let mut parts = Self::default();
        let value = value.to_ascii_lowercase();
        for word in value.split(|c: char| !c.is_ascii_alphabetic()) {
            match word {
                "iso" => parts.style = Some("ISO"),
                "sql" => parts.style = Some("SQL"),
                "german" => {
                    parts.style = Some("German");
                    parts.order.get_or_insert("DMY");
                }
                "ymd" => parts.order = Some("YMD"),
                "dmy" => parts.order = Some("DMY"),
                "mdy" | "us" => parts.order = Some("MDY"),
                "default" => parts.is_default = true,
                _ if word.starts_with("postgres") => parts.style = Some("Postgres"),
                _ if word.starts_with("euro") => parts.order = Some("DMY"),
                _ if word.starts_with("noneuro") => parts.order = Some("MDY"),
                _ => {}
            }
        }
        parts
    }
}

#[cfg(test)]
mod tests {
    use super::joined;

    #[test]
    fn what_a_value_does_not_name_stays() {
        let of = |before, set| joined(before, set);
        assert_eq!(of("Postgres, MDY", "dmy").as_deref(), Some("'Postgres, DMY'"));
        assert_eq!(of("'Postgres, DMY'", "'ISO'").as_deref(), Some("'ISO, DMY'"));
        assert_eq!(of("European", "SQL").as_deref(), Some("'SQL, DMY'"));
        assert_eq!(of("german", "us").as_deref(), Some("'German, MDY'"));
        for whole in ["German", "'ISO, YMD'", "ISO, DEFAULT", "ymd, postgres"] {
            assert_eq!(of("'SQL, DMY'", whole), None);
        }
        assert_eq!(of("dmy", "mdy"), None);
    }
}
