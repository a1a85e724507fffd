-- What both databases hold. All of it is there to leave something on a session, or to depend on what
-- somebody else has left there.

CREATE ROLE actor;
CREATE ROLE ann LOGIN;
CREATE ROLE bob LOGIN;
CREATE ROLE sue LOGIN;
GRANT actor TO ann, bob, sue;
-- What they may all change.
CREATE ROLE owner;
GRANT owner TO ann, bob, sue;

-- Two tenants, whose tables of one name differ.
CREATE SCHEMA tenant_1;
CREATE SCHEMA tenant_2;
CREATE TABLE tenant_1.things (id int PRIMARY KEY, v text, day date DEFAULT '2003-01-02');
CREATE TABLE tenant_2.things (id int PRIMARY KEY, v int8, day timestamp DEFAULT '2003-01-02');
CREATE TABLE things (id int PRIMARY KEY, v text, day date DEFAULT '2003-01-02');
INSERT INTO tenant_1.things SELECT n, 'one ' || n FROM generate_series(1, 5) n;
INSERT INTO tenant_2.things SELECT n, n * 100 FROM generate_series(1, 5) n;
INSERT INTO things SELECT n, 'public ' || n FROM generate_series(1, 5) n;
CREATE FUNCTION tenant_1.whose() RETURNS text LANGUAGE sql STABLE AS $$ SELECT 'one' $$;
CREATE FUNCTION tenant_2.whose() RETURNS int LANGUAGE sql STABLE AS $$ SELECT 2 $$;
CREATE FUNCTION whose() RETURNS text LANGUAGE sql STABLE AS $$ SELECT 'public' $$;

-- Rows that only their tenant sees.
CREATE TABLE secrets (id int PRIMARY KEY, tenant text NOT NULL, secret text);
INSERT INTO secrets SELECT n, (ARRAY['', 'one', 'two', 'müller', 'mÃ¼ller'])[n % 5 + 1], 'secret ' || n
FROM generate_series(1, 20) n;
ALTER TABLE secrets ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON secrets USING (tenant = coalesce(current_setting('app.tenant', true), ''));

-- A column of each kind whose text depends on a setting.
CREATE TABLE dated (
    id int PRIMARY KEY, day date, at timestamptz, span interval, price money, list text[],
    flag bool, doc xml, sum float8, of regclass, bytes bytea
);
CREATE TABLE noted (id int PRIMARY KEY, note text NOT NULL DEFAULT 'nothing', n int NOT NULL DEFAULT 0);
INSERT INTO noted (id) SELECT generate_series(1, 60);
CREATE TABLE numbered (id serial PRIMARY KEY, note text);
CREATE SEQUENCE drawn;
CREATE SEQUENCE other;

-- What leaves something behind, each in another way.
CREATE FUNCTION leave_setting(k text, v text) RETURNS text LANGUAGE sql
BEGIN ATOMIC SELECT set_config(k, v, false); END;
CREATE FUNCTION leave_deep(k text, v text) RETURNS text LANGUAGE plpgsql
AS $$ BEGIN RETURN leave_setting(k, v); END $$;
CREATE FUNCTION leave_variable(k text, v text, l bool) RETURNS text LANGUAGE plpgsql
AS $$ BEGIN RETURN set_config(k, v, l); END $$;
CREATE FUNCTION leave_local(v text) RETURNS text LANGUAGE plpgsql
AS $$ BEGIN SET LOCAL datestyle = 'ISO, DMY'; PERFORM set_config('app.mark', v, true); RETURN '01/02/2003'::date; END $$;
CREATE FUNCTION leave_text(what text) RETURNS void LANGUAGE plpgsql
AS $$ BEGIN EXECUTE what; END $$;
CREATE PROCEDURE leave_called(what text) LANGUAGE plpgsql
AS $$ BEGIN EXECUTE what; END $$;
CREATE FUNCTION leave_table() RETURNS text LANGUAGE plpgsql
AS $$ BEGIN EXECUTE 'CREATE TEMP TABLE IF NOT EXISTS left_over AS SELECT 1 AS n'; RETURN 'left'; END $$;
CREATE FUNCTION leave_lock(n int) RETURNS bool LANGUAGE plpgsql
AS $$ BEGIN EXECUTE format('SELECT pg_advisory_lock(%s)', n); RETURN true; END $$;
CREATE FUNCTION leave_role() RETURNS text LANGUAGE plpgsql
AS $$ BEGIN EXECUTE 'SET ROLE actor'; RETURN current_user; END $$;
CREATE FUNCTION leave_statement(n int) RETURNS text LANGUAGE plpgsql
AS $$ BEGIN EXECUTE format('PREPARE weir_%s AS SELECT ''stolen''', n); RETURN 'taken'; END $$;
CREATE FUNCTION take_statement(n int) RETURNS text LANGUAGE plpgsql
AS $$ BEGIN EXECUTE format('DEALLOCATE weir_%s', n); RETURN 'gone'; END $$;
CREATE FUNCTION draw_deep() RETURNS int8 LANGUAGE sql AS $$ SELECT nextval('drawn') $$;
CREATE FUNCTION mark_state(state text, v text) RETURNS text LANGUAGE sql
AS $$ SELECT leave_deep('app.mark', v) $$;

CREATE FUNCTION leave_by_trigger() RETURNS trigger LANGUAGE plpgsql
AS $$ BEGIN PERFORM leave_setting('app.tenant', NEW.note); RETURN NEW; END $$;
CREATE TABLE triggered (id int PRIMARY KEY, note text);
INSERT INTO triggered SELECT n, 'one' FROM generate_series(1, 5) n;
CREATE TRIGGER leaves BEFORE INSERT OR UPDATE ON triggered
FOR EACH ROW EXECUTE FUNCTION leave_by_trigger();
CREATE VIEW viewed AS SELECT 1 AS n, leave_deep('app.mark', 'by a view') AS left_by;
CREATE TABLE defaulted (id int PRIMARY KEY, v text DEFAULT leave_deep('app.mark', 'by a default'));
CREATE TABLE checked (id int PRIMARY KEY, v text CHECK (leave_deep('app.mark', v) IS NOT NULL));
CREATE DOMAIN watchful AS text CHECK (leave_deep('app.mark', 'by a domain') <> VALUE);
CREATE OPERATOR ### (LEFTARG = text, RIGHTARG = text, FUNCTION = leave_deep);
CREATE AGGREGATE leaving(text) (SFUNC = mark_state, STYPE = text);
CREATE TABLE ruled (id int PRIMARY KEY, v text);
CREATE RULE leaves AS ON INSERT TO ruled DO ALSO SELECT leave_deep('app.mark', 'by a rule');

ALTER TABLE things OWNER TO owner;
ALTER TABLE noted OWNER TO owner;
ALTER VIEW viewed OWNER TO owner;
ALTER FUNCTION whose() OWNER TO owner;
GRANT USAGE, CREATE ON SCHEMA public, tenant_1, tenant_2 TO public;
GRANT ALL ON ALL TABLES IN SCHEMA public, tenant_1, tenant_2 TO public;
GRANT ALL ON ALL SEQUENCES IN SCHEMA public TO public;
