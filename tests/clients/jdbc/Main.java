import java.io.StringReader;
import java.io.StringWriter;
import java.sql.BatchUpdateException;
import java.sql.CallableStatement;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Savepoint;
import java.sql.Statement;
import java.sql.Types;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.postgresql.PGConnection;
import org.postgresql.PGNotification;
import org.postgresql.copy.CopyManager;

/** One query mode of pgjdbc from its login to its end, which is an exception if not all is well. */
public class Main {
  static String mode;

  interface Doing {
    void run() throws Exception;
  }

  static void same(Object found, Object expected) {
    if (!expected.equals(found)) {
      throw new AssertionError(mode + ": " + found + " where " + expected + " was expected");
    }
  }

  static void fails(String state, Doing doing) throws Exception {
    try {
      doing.run();
    } catch (SQLException error) {
      if (!state.equals(error.getSQLState())) throw error;
      return;
    }
    throw new AssertionError(mode + ": no error where " + state + " was expected");
  }

  static Connection connect(String... more) throws SQLException {
    Properties given = new Properties();
    given.setProperty("user", System.getenv("WEIR_PG_USER"));
    given.setProperty("password", System.getenv("WEIR_PG_PASSWORD"));
    given.setProperty("sslmode", "require");
    given.setProperty("preferQueryMode", mode);
    for (int at = 0; at < more.length; at += 2) given.setProperty(more[at], more[at + 1]);
    return DriverManager.getConnection("jdbc:postgresql://" + System.getenv("WEIR_PG_HOST") + ":"
        + System.getenv("WEIR_PG_PORT") + "/" + System.getenv("WEIR_PG_DATABASE"), given);
  }

  static void exec(Connection c, String sql) throws SQLException {
    try (Statement s = c.createStatement()) {
      s.execute(sql);
    }
  }

  static long number(Connection c, String sql) throws SQLException {
    try (Statement s = c.createStatement(); ResultSet r = s.executeQuery(sql)) {
      r.next();
      return r.getLong(1);
    }
  }

  public static void main(String[] given) throws Exception {
    mode = given[0];
    fails("28P01", () -> connect("password", "wrong"));
    fails("28P01", () -> connect("user", "nobody"));
    try (Connection c = connect("ApplicationName", "jdbc")) {
      exec(c, "DROP TABLE IF EXISTS jdbc_client");
      exec(c, "CREATE TABLE jdbc_client (n int PRIMARY KEY, t text)");
      prepared(c);
      batches(c);
      transactions(c);
      fetchSize(c);
      copy(c);
      notifications(c);
      catalogue(c);
      cancels(c);
      changedType(c);
      same(number(c, "SELECT 1"), 1L);
    }
    try (Connection c = connect("reWriteBatchedInserts", "true")) {
      batches(c);
    }
    ownSavepoints();
    manyAtOnce();
    try (Connection c = connect()) {
      exec(c, "DROP TABLE jdbc_client");
    }
  }

  static void prepared(Connection c) throws Exception {
    try (PreparedStatement insert = c.prepareStatement("INSERT INTO jdbc_client VALUES (?, ?)");
        PreparedStatement read = c.prepareStatement("SELECT t FROM jdbc_client WHERE n = ?")) {
      for (int n = 0; n < 40; n++) {
        c.setAutoCommit(n % 4 != 0);
        insert.setInt(1, n);
        insert.setString(2, "ü" + n);
        same(insert.executeUpdate(), 1);
        if (!c.getAutoCommit()) c.commit();
        read.setInt(1, n);
        try (ResultSet r = read.executeQuery()) {
          r.next();
          same(r.getString(1), "ü" + n);
        }
        if (!c.getAutoCommit()) c.rollback();
      }
      c.setAutoCommit(true);
      fails("23505", insert::executeUpdate);
    }
    if (!mode.equals("simple")) {
      // In that mode the driver makes a call of two arguments of it.
      try (CallableStatement call = c.prepareCall("{? = call upper(?)}")) {
        call.registerOutParameter(1, Types.VARCHAR);
        call.setString(2, "weir");
        call.execute();
        same(call.getString(1), "WEIR");
      }
    }
    try (Statement several = c.createStatement()) {
      several.execute("SELECT 1; UPDATE jdbc_client SET t = t WHERE n < 3; SELECT 2");
      same(several.getMoreResults(), false);
      same(several.getUpdateCount(), 3);
      same(several.getMoreResults(), true);
    }
  }

  static void batches(Connection c) throws Exception {
    exec(c, "DELETE FROM jdbc_client");
    try (PreparedStatement insert = c.prepareStatement("INSERT INTO jdbc_client VALUES (?, ?)")) {
      for (int n = 0; n < 1000; n++) {
        insert.setInt(1, n);
        insert.setString(2, "batch");
        insert.addBatch();
      }
      same(insert.executeBatch().length, 1000);
      for (boolean autocommit : new boolean[] {true, false}) {
        c.setAutoCommit(autocommit);
        for (int n : new int[] {2000, 2001, 5, 2002}) {
          insert.setInt(1, n);
          insert.setString(2, "batch");
          insert.addBatch();
        }
        try {
          insert.executeBatch();
          throw new AssertionError("a duplicate was taken");
        } catch (BatchUpdateException error) {
          same(error.getSQLState(), "23505");
        }
        if (!autocommit) {
          fails("25P02", () -> number(c, "SELECT 1"));
          c.rollback();
        }
        c.setAutoCommit(true);
        exec(c, "DELETE FROM jdbc_client WHERE n >= 2000");
      }
    }
    try (Statement mixed = c.createStatement()) {
      mixed.addBatch("UPDATE jdbc_client SET t = 'first' WHERE n = 1");
      mixed.addBatch("DELETE FROM jdbc_client WHERE n >= 998");
      same(Arrays.toString(mixed.executeBatch()), "[1, 2]");
    }
    same(number(c, "SELECT count(*) FROM jdbc_client"), 998L);
  }

  static void transactions(Connection c) throws Exception {
    c.setAutoCommit(false);
    c.setTransactionIsolation(Connection.TRANSACTION_SERIALIZABLE);
    exec(c, "DELETE FROM jdbc_client");
    Savepoint here = c.setSavepoint("here");
    fails("22012", () -> number(c, "SELECT 1 / 0"));
    fails("25P02", () -> number(c, "SELECT 1"));
    c.rollback(here);
    same(number(c, "SELECT count(*) FROM jdbc_client"), 0L);
    c.rollback();
    c.setReadOnly(true);
    fails("25006", () -> exec(c, "DELETE FROM jdbc_client"));
    c.rollback();
    c.setReadOnly(false);
    c.setTransactionIsolation(Connection.TRANSACTION_READ_COMMITTED);
    c.setAutoCommit(true);
    same(number(c, "SELECT count(*) FROM jdbc_client"), 998L);
  }

  /** Rows by sevens from a portal, with other statements of the same transaction in between. */
  static void fetchSize(Connection c) throws Exception {
    c.setAutoCommit(false);
    String all = "SELECT n FROM jdbc_client WHERE n >= ? ORDER BY n";
    try (PreparedStatement rows = c.prepareStatement(all);
        PreparedStatement change = c.prepareStatement("UPDATE jdbc_client SET t = ? WHERE n = ?")) {
      rows.setFetchSize(7);
      for (int from : new int[] {0, 500, 990}) {
        rows.setInt(1, from);
        int expected = from;
        try (ResultSet r = rows.executeQuery()) {
          while (r.next()) {
            same(r.getInt(1), expected);
            change.setString(1, "row " + expected);
            change.setInt(2, expected);
            if (expected % 10 == 0) same(change.executeUpdate(), 1);
            expected++;
          }
        }
        same(expected, 998);
        c.commit();
      }
    }
    c.setAutoCommit(true);
    same(number(c, "SELECT count(*) FROM jdbc_client WHERE t LIKE 'row %'"), 100L);
  }

  static void copy(Connection c) throws Exception {
    CopyManager copy = c.unwrap(PGConnection.class).getCopyAPI();
    StringBuilder rows = new StringBuilder();
    for (int n = 10000; n < 20000; n++) rows.append(n).append("\tcopied\n");
    String in = "COPY jdbc_client FROM STDIN";
    same(copy.copyIn(in, new StringReader(rows.toString())), 10000L);
    fails("23505", () -> copy.copyIn(in, new StringReader(rows.toString())));
    fails("22P02", () -> copy.copyIn(in, new StringReader("no number\tx\n")));
    StringWriter out = new StringWriter();
    String query = "COPY (SELECT * FROM jdbc_client WHERE n >= 10000 ORDER BY n) TO STDOUT";
    same(copy.copyOut(query, out), 10000L);
    same(out.toString(), rows.toString());
    exec(c, "DELETE FROM jdbc_client WHERE n >= 10000");
  }

  static void notifications(Connection c) throws Exception {
    exec(c, "LISTEN jdbc");
    try (Connection other = connect()) {
      exec(other, "NOTIFY jdbc, 'hello'");
    }
    PGNotification[] heard = c.unwrap(PGConnection.class).getNotifications(20_000);
    same(heard == null ? "nothing" : heard[0].getParameter(), "hello");
    exec(c, "UNLISTEN *");
  }

  static void catalogue(Connection c) throws Exception {
    List<String> columns = new ArrayList<>();
    try (ResultSet r = c.getMetaData().getColumns(null, "public", "jdbc_client", "%")) {
      while (r.next()) columns.add(r.getString("COLUMN_NAME") + " " + r.getString("TYPE_NAME"));
    }
    same(columns, List.of("n int4", "t text"));
  }

  static void cancels(Connection c) throws Exception {
    try (Statement slow = c.createStatement()) {
      slow.setQueryTimeout(1);
      fails("57014", () -> slow.executeQuery("SELECT pg_sleep(60)"));
    }
    try (Statement slow = c.createStatement()) {
      ExecutorService other = Executors.newSingleThreadExecutor();
      Future<?> cancelled = other.submit(() -> {
        Thread.sleep(1000);
        slow.cancel();
        return null;
      });
      fails("57014", () -> slow.executeQuery("SELECT pg_sleep(60)"));
      cancelled.get();
      other.shutdown();
    }
    same(number(c, "SELECT 1"), 1L);
  }

  /** Outside a transaction the driver prepares anew by itself, within one it can't. */
  static void changedType(Connection c) throws Exception {
    exec(c, "DROP TABLE IF EXISTS jdbc_changed");
    exec(c, "CREATE TABLE jdbc_changed (a int)");
    exec(c, "INSERT INTO jdbc_changed VALUES (1)");
    try (PreparedStatement read = c.prepareStatement("SELECT * FROM jdbc_changed")) {
      for (int n = 0; n < 10; n++) read.executeQuery().close();
      exec(c, "ALTER TABLE jdbc_changed ADD COLUMN b text DEFAULT 'new'");
      for (int n = 0; n < 10; n++) {
        try (ResultSet r = read.executeQuery()) {
          r.next();
          same(r.getString("b"), "new");
        }
      }
    }
    exec(c, "DROP TABLE jdbc_changed");
  }

  /** With autosave the driver sets a savepoint in front of each statement and goes back to it. */
  static void ownSavepoints() throws Exception {
    try (Connection c = connect("autosave", "always")) {
      c.setAutoCommit(false);
      for (int n = 0; n < 10; n++) {
        exec(c, "UPDATE jdbc_client SET t = 'saved' WHERE n = " + n);
        fails("23505", () -> exec(c, "INSERT INTO jdbc_client VALUES (1, 'again')"));
      }
      c.commit();
      same(number(c, "SELECT count(*) FROM jdbc_client WHERE t = 'saved'"), 10L);
      c.rollback();
    }
  }

  static void manyAtOnce() throws Exception {
    ExecutorService threads = Executors.newFixedThreadPool(10);
    List<Future<?>> all = new ArrayList<>();
    for (int thread = 0; thread < 10; thread++) {
      int own = thread;
      all.add(threads.submit(() -> {
        try (Connection c = connect();
            PreparedStatement read = c.prepareStatement("SELECT ?::int + ?, t FROM jdbc_client "
                + "WHERE n = ?")) {
          for (int n = 0; n < 50; n++) {
            read.setInt(1, own);
            read.setInt(2, n);
            read.setInt(3, n);
            try (ResultSet r = read.executeQuery()) {
              r.next();
              same(r.getInt(1), own + n);
            }
          }
        }
        return null;
      }));
    }
    for (Future<?> one : all) one.get();
    threads.shutdown();
  }
}
