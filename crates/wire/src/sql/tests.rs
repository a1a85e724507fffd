use proptest::prelude::*;

use super::*;

fn kinds(sql: &str) -> Vec<(TokenKind, String)> {
    Lexer::new(sql.as_bytes(), Strings::Standard)
        .map(|token| (token.kind, String::from_utf8_lossy(token.text).into_owned()))
        .collect()
}

fn texts(sql: &str) -> Vec<String> {
    kinds(sql).into_iter().map(|(_, text)| text).collect()
}

fn form(sql: &str) -> Option<String> {
    let mut out = Vec::new();
    normalise(sql.as_bytes(), Strings::Standard, 10_000, &mut out)
        .then(|| String::from_utf8_lossy(&out).into_owned())
}

#[test]
fn strings_end_where_the_server_ends_them() {
    let only = |sql: &str, kind| assert_eq!(kinds(sql), [(kind, sql.to_owned())]);
    only("'a''b\\'", TokenKind::String);
    only("'a'\n 'b'", TokenKind::String);
    only("'a' -- c\n -- d\n'b'", TokenKind::String);
    only("E'a\\'b'", TokenKind::EscapeString);
    only("e'a'\n'b\\''", TokenKind::EscapeString);
    only("U&'a'", TokenKind::UnicodeString);
    only("n'a'", TokenKind::String);
    only("x'ff'", TokenKind::BitString);
    only("$$a'b$$", TokenKind::DollarString);
    only("$a1$ $$ $b$ $a1$", TokenKind::DollarString);
    only("\"a\"\"b\"", TokenKind::Quoted);
    only("u&\"a\"", TokenKind::UnicodeQuoted);
    only("'a", TokenKind::Odd);
    only("/* a /* */", TokenKind::Odd);
    only("1a", TokenKind::Odd);
    assert_eq!(texts("'a' 'b'"), ["'a'", "'b'"]);
    assert_eq!(texts("'a' /* c */\n'b'"), ["'a'", "'b'"]);
    assert_eq!(texts("type'a'"), ["type", "'a'"]);
    assert_eq!(texts("a$b$ c$$"), ["a$b$", "c$$"]);
}

#[test]
fn operators_and_numbers_are_cut_as_the_server_cuts_them() {
    assert_eq!(texts("a<-1"), ["a", "<", "-", "1"]);
    assert_eq!(texts("a@-1"), ["a", "@-", "1"]);
    assert_eq!(texts("1+--x\n2"), ["1", "+", "2"]);
    assert_eq!(texts("1*/*x*/2"), ["1", "*", "2"]);
    assert_eq!(
        texts("1..2 1.5e-3 .5 0x1F 1_000"),
        ["1", "..", "2", "1.5e-3", ".5", "0x1F", "1_000"]
    );
    assert_eq!(texts("a::int $1+$2"), ["a", "::", "int", "$1", "+", "$2"]);
    assert_eq!(texts("a[1:2]"), ["a", "[", "1", ":", "2", "]"]);
    assert_eq!(texts("/*/* */*/a/**/b"), ["a", "b"]);
}

#[test]
fn a_backslash_escapes_where_the_session_says_so() {
    let tokens = Lexer::new(b"'a\\' ; 'b'", Strings::Backslash).count();
    assert_eq!(tokens, 2, "one string with a quote in it, and the beginning of another");
}

#[test]
fn the_normal_form_leaves_out_what_no_plan_depends_on() {
    let same = |a: &str, b: &str| assert_eq!(form(a), form(b), "{a} / {b}");
    same("SELECT * FROM t WHERE a = 1", "select*from T/* c */where a='x'");
    same("select a in (1, 2, 3)", "select a in ($1)");
    assert_ne!(form("select \"A\""), form("select \"a\""));
    assert_ne!(form("select a ? b"), form("select a $1 b"));
    assert_ne!(form("/* weir: primary */ select 1"), form("select 1"));
    assert_eq!(form("select 'x"), None);
    assert_eq!(form("select Count( * ) from t").unwrap(), "select count ( * ) from t ");
}

#[test]
fn directives_stand_in_leading_comments_only() {
    assert_eq!(directive(b" /* x */ -- weir: primary\n select 1"), Some(Directive::Primary));
    assert_eq!(directive(b"/*weir:replica*/select 1"), Some(Directive::Replica));
    assert_eq!(directive(b"select /* weir: primary */ 1"), None);
    assert_eq!(directive(b"/* weird: primary */ select 1"), None);
}

#[test]
fn statements_are_cut_at_semicolons_of_their_own() {
    let count = |sql: &str| {
        let (mut cut, mut tokens, mut count) =
            (statements(sql.as_bytes(), Strings::Standard), Vec::new(), 0);
        while cut.next_into(&mut tokens, 100) {
            count += 1;
        }
        count
    };
    assert_eq!(count(";; select 1;; select ';' ; "), 2);
    assert_eq!(count("create rule r as on insert to t do (select 1; select 2); select 3"), 2);
    let body = "create or replace function f() returns int begin atomic select case when a then 1 \
                end; select 2; end; select 3";
    assert_eq!(count(body), 2);
    assert_eq!(count("begin; select 1; end"), 3);
    assert_eq!(count("create function begin() returns int as 'x'; select atomic; end"), 3);
}

proptest! {
    #[test]
    fn tokens_never_overlap_and_leave_out_only_blanks(
        text in "[a-zA-Z0-9'\"$/*\\-;:.,()+<>=~ \n\\\\&é]{0,60}"
    ) {
        let bytes = text.as_bytes();
        let mut at = 0;
        for token in Lexer::new(bytes, Strings::Standard) {
            prop_assert!(token.start >= at && !token.text.is_empty());
            prop_assert_eq!(&bytes[token.start..token.start + token.text.len()], token.text);
            at = token.start + token.text.len();
        }
        prop_assert!(at <= bytes.len());
        form(&text);
        let _ = directive(bytes);
    }

    #[test]
    fn the_form_of_a_form_is_itself(
        words in prop::collection::vec("[a-z]{1,4}|[0-9]{1,3}|'[a-z]*'|[(),.=]", 0..20)
    ) {
        let text = words.join(" ");
        if let Some(once) = form(&text) {
            let again = form(&once.replace('$', "1")).unwrap();
            prop_assert_eq!(once, again);
        }
    }
}

/// The text, the types and the values.
fn lift(sql: &str) -> Option<(String, Vec<u32>, Vec<String>)> {
    let mut lifted = Lifted::default();
    if !lifted.lift(sql.as_bytes(), Strings::Standard) {
        return None;
    }
    let types: Vec<u32> = lifted.types[2..]
        .chunks(4)
        .map(|oid| u32::from_be_bytes(oid.try_into().unwrap()))
        .collect();
    let mut values = Vec::new();
    let mut rest = &lifted.values[..];
    while let Some((len, after)) = rest.split_first_chunk::<4>() {
        let (value, after) = after.split_at(u32::from_be_bytes(*len) as usize);
        values.push(String::from_utf8_lossy(value).into_owned());
        rest = after;
    }
    assert_eq!((types.len(), values.len()), (lifted.count.into(), lifted.count.into()));
    assert_eq!(lifted.types[..2], lifted.count.to_be_bytes());
    Some((String::from_utf8_lossy(&lifted.text).into_owned(), types, values))
}

#[test]
fn constants_are_lifted_out_with_the_types_that_the_server_gives_them() {
    let (text, types, values) =
        lift("select  A.c from t A where id=5 and x <> 'it''s' and y=-3000000000\n;").unwrap();
    assert_eq!(text, "select A . c from t A where id = $1 and x <> $2 and y = - $3 ; ");
    assert_eq!(types, [23, 0, 20]);
    assert_eq!(values, ["5", "it's", "3000000000"]);
    let (_, types, values) = lift("values (1.5, 1e3, .5, 99999999999999999999, '')").unwrap();
    assert_eq!(types, [1700, 1700, 1700, 1700, 0]);
    assert_eq!(values, ["1.5", "1e3", ".5", "99999999999999999999", ""]);
    let bounds = "values (2147483647, 2147483649, 9223372036854775807, 9223372036854775809)";
    assert_eq!(lift(bounds).unwrap().1, [23, 20, 20, 1700]);
    let twelve = lift("values (1,2,3,4,5,6,7,8,9,10,11,12)").unwrap().0;
    assert!(twelve.ends_with("$9 , $10 , $11 , $12 ) "), "{twelve}");
}

#[test]
fn what_is_not_for_certain_is_not_lifted() {
    let odd = [
        "select /* who */ 1",
        "-- who\nselect 1",
        "select 1 -- who",
        "/*+ hint */ select 1",
        "select E'a'",
        "select n'a'",
        "select U&'a'",
        "select x'ff'",
        "select $$a$$",
        "select $1",
        "select 'a'\n'b'",
        "select 0x1f",
        "select 1_000",
        "select 1a",
        "select -2147483648",
        "select 009223372036854775808",
        "select 'a\0b'",
        "select U&\"a\"",
    ];
    for sql in odd {
        assert_eq!(lift(sql), None, "{sql}");
    }
    let many = format!("values ({})", vec!["1"; 65].join(","));
    assert!(lift(&many).is_none() && lift(&many.replacen("1,", "", 1)).is_some());
    assert!(lift(&format!("select {}", "a,".repeat(2000))).is_none());
    assert!(!Lifted::default().lift(b"select 'a'", Strings::Backslash));
}

proptest! {
    #[test]
    fn a_text_that_was_lifted_has_the_tokens_it_had(sql in "[a-z0-9 '(),.=*;:$+-]{0,60}") {
        if let Some((text, _, values)) = lift(&sql) {
            let mut values = values.into_iter();
            let back = kinds(&text).into_iter().map(|(kind, text)| match kind {
                TokenKind::Parameter => values.next().unwrap(),
                _ => text,
            });
            let whole = kinds(&sql).into_iter().map(|(kind, text)| match kind {
                TokenKind::String => text[1..text.len() - 1].replace("''", "'"),
                _ => text,
            });
            prop_assert_eq!(back.collect::<Vec<_>>(), whole.collect::<Vec<_>>());
        }
    }
}
