//! Statements by chance: of all that can leave a trace, and of what can tell of it.

use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom as _;

use super::found::{ServerCatalogue, Setting};
use super::step::Statement;

/// What is run as text by functions, procedures and blocks.
const TEXTS: [&str; 9] = [
    "SET datestyle = 'SQL, DMY'",
    "SET search_path = tenant_2, public",
    "SET ROLE actor",
    "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL REPEATABLE READ",
    "CREATE TEMP TABLE things AS SELECT 1 AS id, 'stolen'::text AS v, 'stolen'::text AS day",
    "PREPARE left_behind AS SELECT 'stolen'",
    "SELECT set_config('app.tenant', 'two', false)",
    "SELECT pg_advisory_lock(7)",
    "DECLARE left_open CURSOR WITH HOLD FOR SELECT 1",
];
/// Tenants, of whom one is read as another under a wrong encoding.
const TENANTS: [&str; 5] = ["", "one", "two", "müller", "mÃ¼ller"];
/// Dates that settings read in different ways, each of which takes them.
const DATES: [&str; 4] = ["01/02/2003", "03/04/2005", "2003-04-05", "05/06/07"];

/// What a client may ask for now.
#[derive(Debug, Clone, Copy)]
pub struct Footing {
    pub number: usize,
    /// The status byte of the last ReadyForQuery.
    pub status: u8,
    /// Nobody else is in a transaction.
    pub alone: bool,
    /// Its answers may depend on nobody else.
    pub own: bool,
}

#[derive(Debug)]
pub struct Inventor<'a> {
    pub found: &'a ServerCatalogue,
    pub chance: &'a mut StdRng,
    pub footing: Footing,
}

impl Inventor<'_> {
    pub fn statement(&mut self) -> Statement {
        if self.footing.status == b'E' && self.one_in(2) {
            return Statement::new("ROLLBACK").with(|marks| marks.sways = true);
        }
        let made = self.made();
        // Others may have made it into a function that leaves something.
        let stains = made.marks.stains || made.sql.contains("whose");
        made.with(|marks| marks.stains = stains)
    }

    fn made(&mut self) -> Statement {
        match self.chance.random_range(0..100) {
            0..20 => self.literal(),
            20..27 => self.moment(),
            27..38 => self.write(),
            38..50 => self.read(),
            50..62 => self.setting(),
            62..74 => self.transaction(),
            74..80 => self.call(),
            80..84 => self.stray(),
            84..93 => self.session(),
            93..96 => self.sequence(),
            96..98 => self.fault(),
            _ => self.change(),
        }
    }

    fn one_in(&mut self, n: u32) -> bool {
        self.chance.random_range(0..n) == 0
    }

    fn of<T: Copy>(&mut self, all: &[T]) -> T {
        *all.choose(self.chance).expect("there are some")
    }

    /// A row that nobody else writes, or one that others do.
    fn row(&mut self) -> usize {
        if !self.footing.own && self.one_in(20) { 60 } else { self.footing.number % 50 + 1 }
    }

    /// A literal whose reading or writing depends on settings, as drivers send it.
    fn literal(&mut self) -> Statement {
        let literal = self.found.literals.choose(self.chance).expect("there are some");
        let statement = match self.chance.random_range(0..5) {
            // psycopg, asyncpg and their kin have constants beside parameters.
            0 | 1 => Statement::new(format!("SELECT {literal} WHERE $1")).values(&["true"]),
            2 => Statement::new(format!("SELECT {literal}, $1::int + 1")).values(&["6"]),
            3 => Statement::new(format!("VALUES ({literal})")),
            _ => Statement::new(format!("SELECT {literal}")),
        };
        let stains = literal.contains("watchful");
        statement.with(|marks| (marks.depends, marks.stains) = (true, stains))
    }

    fn moment(&mut self) -> Statement {
        let moment = self.found.moments.choose(self.chance).expect("there are some");
        let stains = moment.contains("watchful");
        let statement = match self.chance.random_range(0..3) {
            0 => Statement::new(format!("SELECT {moment} WHERE $1")).values(&["true"]),
            _ => Statement::new(format!("SELECT {moment}")),
        };
        // One that is kept under a name keeps its time.
        statement.with(|marks| {
            (marks.depends, marks.sways, marks.at_once) = (true, true, true);
            marks.stains = stains;
        })
    }

    /// Rows whose values depend on settings.
    fn write(&mut self) -> Statement {
        let (row, date) = (self.row(), self.of(&DATES));
        let sql = match self.chance.random_range(0..6) {
            0 => format!(
                "INSERT INTO public.dated (id, day, at, span, list) VALUES ({row}, '{date}', \
                 '{date} 12:00', '-1 2:03:04', '{{null,a}}') ON CONFLICT (id) DO UPDATE \
                 SET day = EXCLUDED.day, at = EXCLUDED.at, span = EXCLUDED.span, \
                 list = EXCLUDED.list"
            ),
            1 => format!("UPDATE public.dated SET day = '{date}' WHERE id = {row}"),
            2 => format!(
                "UPDATE public.dated SET at = '{date}', flag = NULL = NULL WHERE id = {row}"
            ),
            3 => format!("UPDATE public.noted SET n = n + 1, note = 'a\\b' WHERE id = {row}"),
            4 => format!("DELETE FROM public.dated WHERE id = {row}"),
            _ => {
                let sql = "UPDATE public.noted SET n = n + $1, note = $2 WHERE id = $3";
                let row = row.to_string();
                return Statement::new(sql)
                    .values(&["1", date, &row])
                    .with(|marks| marks.writes = true);
            }
        };
        Statement::new(sql).with(|marks| (marks.writes, marks.depends) = (true, true))
    }

    fn read(&mut self) -> Statement {
        let row = self.row();
        let id = self.chance.random_range(1..6);
        let sql = match self.chance.random_range(0..10) {
            0 => format!("SELECT v FROM things WHERE id = {id}"),
            1 => "SELECT * FROM things ORDER BY id".to_owned(),
            2 => "SELECT whose()".to_owned(),
            3 => "SELECT string_agg(secret, ',' ORDER BY id) FROM public.secrets".to_owned(),
            4 => format!("SELECT secret FROM public.secrets WHERE id = {id}"),
            5 => format!("SELECT day, at, span, list, flag FROM public.dated WHERE id = {row}"),
            6 => format!("SELECT day FROM public.dated WHERE id = {row} AND day < '01/12/2024'"),
            7 => {
                "SELECT coalesce(current_setting('app.tenant', true), ''), current_user".to_owned()
            }
            8 => format!("SELECT day::text, v FROM things WHERE id = {id} FOR UPDATE"),
            _ => {
                let sql = "SELECT day, $1::date FROM things WHERE id = $2";
                let (date, id) = (self.of(&DATES), id.to_string());
                return Statement::new(sql).values(&[date, &id]).with(|marks| marks.depends = true);
            }
        };
        Statement::new(sql).with(|marks| marks.depends = true)
    }

    /// A setting by any of the ways in which one is set.
    fn setting(&mut self) -> Statement {
        let (name, value) = self.pair();
        let quoted = value.replace('\'', "''");
        // A path is a list, whose quotes would make one name of it.
        let written = if name == "search_path" { value.clone() } else { format!("'{quoted}'") };
        let statement = match self.chance.random_range(0..14) {
            0..4 => Statement::new(format!("SET {name} = {written}")),
            4..8 => Statement::new(format!("SET LOCAL {name} = {written}")),
            8 => Statement::new(format!("RESET {name}")).with(|marks| marks.alone = true),
            9 => Statement::new(format!("SELECT set_config('{name}', '{quoted}', true)")),
            10 => Statement::new(format!("SELECT set_config('{name}', '{quoted}', false)")),
            11 => {
                let local = if self.one_in(2) { "true" } else { "false" };
                Statement::new("SELECT set_config($1, $2, $3)")
                    .values(&[&name, &value, local])
                    .with(|marks| marks.stains = true)
            }
            12 => Statement::new(format!(
                "UPDATE pg_settings SET setting = '{quoted}' WHERE name = '{name}'"
            ))
            .with(|marks| marks.stains = true),
            _ if name.contains('.') => {
                Statement::new(format!("SELECT coalesce(current_setting('{name}', true), '')"))
            }
            _ => Statement::new(format!("SHOW {name}")),
        };
        statement.with(|marks| marks.sways = true)
    }

    /// A setting and what it is to be; those that decide how a literal is read more often.
    fn pair(&mut self) -> (String, String) {
        const READING: [&str; 9] = [
            "DateStyle",
            "TimeZone",
            "IntervalStyle",
            "standard_conforming_strings",
            "transform_null_equals",
            "array_nulls",
            "xmloption",
            "search_path",
            "client_encoding",
        ];
        if self.one_in(4) {
            let name = self.of(&["app.tenant", "app.tenant", "app.mark"]);
            return (name.to_owned(), self.of(&TENANTS).to_owned());
        }
        let settings = &self.found.settings;
        let reading: Vec<&Setting> =
            settings.iter().filter(|setting| READING.contains(&&*setting.name)).collect();
        let setting = match self.one_in(3) {
            true => settings.choose(self.chance).expect("there are some"),
            false => reading.choose(self.chance).expect("there are some"),
        };
        let value = setting.values.choose(self.chance).expect("one at least");
        (setting.name.clone(), value.clone())
    }

    fn transaction(&mut self) -> Statement {
        let open = self.footing.status != b'I';
        let sql = match self.chance.random_range(0..12) {
            0..5 if !open => self.of(&[
                "BEGIN",
                "BEGIN",
                "START TRANSACTION",
                "BEGIN ISOLATION LEVEL REPEATABLE READ",
                "BEGIN READ ONLY",
            ]),
            0..3 => "SAVEPOINT s",
            3..5 => "ROLLBACK TO SAVEPOINT s",
            5 => "RELEASE SAVEPOINT s",
            6 => "COMMIT AND CHAIN",
            7 | 8 => "ROLLBACK",
            _ => "COMMIT",
        };
        Statement::new(sql).with(|marks| marks.sways = true)
    }

    fn call(&mut self) -> Statement {
        let call = self.found.calls.choose(self.chance).expect("there are some").clone();
        // What others do as well.
        if self.footing.own && ["lo", "draw"].iter().any(|word| call.sql.contains(word)) {
            return Statement::new("SELECT 1");
        }
        call
    }

    /// What leaves something without a word of it in its text.
    fn stray(&mut self) -> Statement {
        let mut text = self.of(&TEXTS);
        if self.footing.own && text.contains("lock") {
            text = TEXTS[0];
        }
        let text = text.replace('\'', "''");
        let tenant = self.of(&TENANTS);
        let row = self.row();
        let sql = match self.chance.random_range(0..18) {
            0 => format!("SELECT public.leave_text('{text}')"),
            1 => format!("CALL public.leave_called('{text}')"),
            2 => format!("DO $$ BEGIN EXECUTE '{text}'; END $$"),
            3 => "EXPLAIN (ANALYZE, COSTS off, TIMING off, SUMMARY off) \
                  CREATE TEMP TABLE explained AS SELECT 1"
                .to_owned(),
            4 => format!(
                "INSERT INTO public.triggered VALUES ({row}, '{tenant}') \
                 ON CONFLICT (id) DO UPDATE SET note = EXCLUDED.note"
            ),
            5 => format!("UPDATE public.triggered SET note = '{tenant}' WHERE id = {row}"),
            6 => "SELECT * FROM public.viewed".to_owned(),
            7 => format!("INSERT INTO public.defaulted VALUES ({row}) ON CONFLICT DO NOTHING"),
            8 => format!(
                "INSERT INTO public.checked VALUES ({row}, '{tenant}') ON CONFLICT DO NOTHING"
            ),
            9 => "SELECT 'a'::public.watchful".to_owned(),
            10 => format!("SELECT 'app.tenant' OPERATOR(public.###) '{tenant}'"),
            11 => format!("SELECT public.leaving('{tenant}')"),
            12 => format!("INSERT INTO public.ruled VALUES ({row}, 'x') ON CONFLICT DO NOTHING"),
            13 => format!("SELECT public.leave_statement({}), public.whose()", row % 12),
            14 => format!("SELECT public.take_statement({})", row % 12),
            15 => "SELECT set_config('search_path', 'pg_temp, public', true); \
                   CREATE TABLE left_there (n int)"
                .to_owned(),
            16 => format!("SELECT public.leave_local('{tenant}')"),
            _ => format!("SELECT public.leave_setting('app.tenant', '{tenant}')"),
        };
        let statement = Statement::new(sql);
        statement.with(|marks| {
            (marks.stains, marks.sways, marks.writes, marks.alone) = (true, true, true, true)
        })
    }

    /// What Weir knows of by its text, and follows or keeps the connection for.
    fn session(&mut self) -> Statement {
        let (n, id) = (self.chance.random_range(0..3), self.chance.random_range(1..6));
        let date = self.of(&DATES);
        let key = if self.footing.own { 1_000 + self.footing.number } else { 5 };
        let sql = match self.chance.random_range(0..20) {
            0 => format!("PREPARE q{n} AS SELECT '{date}'::date::text, v FROM things"),
            1 | 2 => format!("EXECUTE q{n}"),
            3 => format!("DEALLOCATE q{n}"),
            4 => "DEALLOCATE ALL".to_owned(),
            5 => "CREATE TEMP TABLE mine (n int8)".to_owned(),
            6 => "INSERT INTO mine VALUES (1), (2)".to_owned(),
            7 => "SELECT count(*) FROM mine".to_owned(),
            8 => "DROP TABLE mine".to_owned(),
            9 => format!("SELECT pg_try_advisory_lock({key})"),
            10 => format!("SELECT pg_advisory_unlock({key})"),
            11 => format!("DECLARE c{n} CURSOR WITH HOLD FOR SELECT v FROM things ORDER BY id"),
            12 => format!("FETCH 2 FROM c{n}"),
            13 => format!("CLOSE c{n}"),
            14 => "SET ROLE actor".to_owned(),
            15 => "RESET ROLE".to_owned(),
            16 => {
                self.of(&["DISCARD ALL", "RESET ALL", "DISCARD TEMP", "DISCARD PLANS"]).to_owned()
            }
            17 => format!("SELECT pg_try_advisory_xact_lock({key})"),
            18 => "SELECT pg_advisory_unlock_all()".to_owned(),
            _ => format!("SELECT v, pg_typeof(v) FROM things WHERE id = {id}"),
        };
        let sways = !sql.starts_with("SELECT");
        let alone = sql.starts_with("DISCARD") || sql.starts_with("RESET");
        Statement::new(sql)
            .with(|marks| (marks.sways, marks.alone, marks.depends) = (sways, alone, true))
    }

    fn sequence(&mut self) -> Statement {
        let of = match self.footing.own {
            true => format!("own_{}", self.footing.number),
            false => self.of(&["drawn", "other"]).to_owned(),
        };
        let sql = match self.chance.random_range(0..7) {
            0 | 1 => format!("SELECT nextval('public.{of}')"),
            2 if self.one_in(3) => format!("SELECT currval('public.{of}')"),
            4 if self.one_in(3) => "SELECT lastval()".to_owned(),
            5 if !self.footing.own => {
                "INSERT INTO public.numbered (id, note) VALUES (nextval('public.drawn'), 'x')"
                    .to_owned()
            }
            _ => format!("SELECT nextval('public.{of}'), currval('public.{of}')"),
        };
        Statement::new(sql).with(|marks| marks.writes = true)
    }

    fn fault(&mut self) -> Statement {
        let sql = match self.chance.random_range(0..5) {
            0 => "SELECT 1 / 0",
            1 => "SELEKT 1",
            2 => "SELECT * FROM nowhere_at_all",
            3 => "SELECT 'thirteen'::int",
            _ => return Statement::new("SELECT 1 / $1::int").values(&["0"]),
        };
        Statement::new(sql)
    }

    /// A change of the catalogue, which others meet.
    fn change(&mut self) -> Statement {
        if !self.footing.alone || self.footing.own {
            return Statement::new("SELECT 2");
        }
        let sql = match self.chance.random_range(0..9) {
            0 => "ALTER TABLE public.noted ADD COLUMN IF NOT EXISTS more date DEFAULT '01/02/2003'",
            1 => "ALTER TABLE public.noted DROP COLUMN IF EXISTS more",
            2 => {
                "CREATE OR REPLACE FUNCTION public.whose() RETURNS text LANGUAGE plpgsql VOLATILE \
                  AS $$ BEGIN EXECUTE 'SET datestyle = ''SQL, DMY'''; RETURN 'changed'; END $$"
            }
            3 => {
                "CREATE OR REPLACE FUNCTION public.whose() RETURNS text LANGUAGE sql STABLE \
                  AS $$ SELECT 'public' $$"
            }
            4 => {
                "CREATE OR REPLACE VIEW public.viewed AS SELECT 2 AS n, \
                  public.leave_deep('datestyle', 'SQL, DMY') AS left_by"
            }
            5 => "ALTER TABLE public.things ALTER day TYPE timestamp",
            6 => "ALTER TABLE public.things ALTER day TYPE date",
            7 => "CREATE TABLE IF NOT EXISTS tenant_1.made (id int)",
            _ => "DROP TABLE IF EXISTS tenant_1.made",
        };
        // As whoever owns it; what others may not do is refused on both sides.
        let stains = sql.contains("whose");
        Statement::new(sql)
            .with(|marks| (marks.writes, marks.sways, marks.stains) = (true, true, stains))
    }
}
