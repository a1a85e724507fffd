//! Classes of characters: `[...]`, `\d`, `\p{Greek}`.

use super::{BAD_CLASS_RANGE, NO_BRACKET, Reader, Result, part, wrong};

/// Whether the name may be one of a Unicode category or script.
fn is_unicode_class(name: &str) -> bool {
    const CATEGORIES: [&str; 37] = [
        "C", "Cc", "Cf", "Co", "Cs", "L", "Ll", "Lm", "Lo", "Lt", "Lu", "M", "Mc", "Me", "Mn", "N",
        "Nd", "Nl", "No", "P", "Pc", "Pd", "Pe", "Pf", "Pi", "Po", "Ps", "S", "Sc", "Sk", "Sm",
        "So", "Yi", "Z", "Zl", "Zp", "Zs",
    ];
    let name = name.strip_prefix('^').unwrap_or(name);
    let script = name.len() > 2
        && name.starts_with(|c: char| c.is_ascii_uppercase())
        && name.chars().all(|c| c == '_' || c.is_ascii_alphabetic());
    script || CATEGORIES.contains(&name)
}

impl<'a> Reader<'a> {
    /// The classes that a backslash begins, as `\d` and `\p{Greek}`; `before` begins with it.
    pub(super) fn named_class(&mut self, before: &'a str) -> Result<bool> {
        match before.as_bytes() {
            [b'\\', b'd' | b'D' | b's' | b'S' | b'w' | b'W', ..] => {
                self.rest = before.get(2..).unwrap_or_default();
                Ok(true)
            }
            [b'\\', b'p' | b'P', ..] => {
                self.rest = before.get(2..).unwrap_or_default();
                if self.next() == Some('{') {
                    let Some(end) = before.find('}') else {
                        return wrong(BAD_CLASS_RANGE, before);
                    };
                    self.rest = before.get(end + 1..).unwrap_or_default();
                }
                let class = part(before, self.rest);
                let name = class.get(2..).unwrap_or_default();
                let braced = name.strip_prefix('{').and_then(|name| name.strip_suffix('}'));
                if !is_unicode_class(braced.unwrap_or(name)) {
                    return wrong(BAD_CLASS_RANGE, class);
                }
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    /// The rest of `[...]`, which `before` begins with.
    pub(super) fn class(&mut self, before: &'a str) -> Result<()> {
        const POSIX: [&str; 14] = [
            "alnum", "alpha", "ascii", "blank", "cntrl", "digit", "graph", "lower", "print",
            "punct", "space", "upper", "word", "xdigit",
        ];
        self.skip("^");
        let mut first = true;
        while first || !self.rest.starts_with(']') {
            first = false;
            let start = self.rest;
            if let Some(named) = start.strip_prefix("[:")
                && let Some((name, rest)) = named.split_once(":]")
            {
                if !POSIX.contains(&name.strip_prefix('^').unwrap_or(name)) {
                    return wrong(BAD_CLASS_RANGE, part(start, rest));
                }
                self.rest = rest;
                continue;
            }
            if self.named_class(start)? {
                continue;
            }
            let low = self.class_char(before)?;
            if self.rest.len() >= 2 && self.rest.starts_with('-') && !self.rest.starts_with("-]") {
                self.skip("-");
                if self.class_char(before)? < low {
                    return wrong(BAD_CLASS_RANGE, part(start, self.rest));
                }
            }
        }
        self.skip("]");
        Ok(())
    }

    fn class_char(&mut self, class: &str) -> Result<u32> {
        if self.rest.starts_with('\\') {
            return self.escaped(self.rest);
        }
        self.next().map_or_else(|| wrong(NO_BRACKET, class), |char| Ok(char.into()))
    }
}
