// pgJDBC against an SQL server: metadata, types, prepared statements, fetch sizes, errors, cancel.
//
// usage: java -cp postgresql.jar Jdbc.java HOST:PORT FOLDER
//
// FOLDER is one that the server's SQL may read.

import java.math.BigDecimal;
import java.nio.file.Files;
import java.nio.file.Path;
import java.sql.Connection;
import java.sql.Date;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.sql.Timestamp;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;

public class Jdbc {
    static void check(Object value, Object expected) {
        if (!String.valueOf(value).equals(String.valueOf(expected))) {
            throw new AssertionError(value + " is not " + expected);
        }
    }

    interface Work {
        void run() throws SQLException;
    }

    static void fails(String state, Work work) {
        try {
            work.run();
        } catch (SQLException error) {
            check(error.getSQLState(), state);
            return;
        }
        throw new AssertionError("no error " + state);
    }

    public static void main(String[] arguments) throws Exception {
        String folder = arguments[1];
        String file = "'" + folder + "/jdbc.csv'";
        Files.writeString(Path.of(folder, "jdbc.csv"), "id,name,price,day,at\n"
            + "1,it's,1.50,2024-02-29,2024-02-29 12:34:56.789\n2,,-0.25,1999-12-31,1999-12-31 00:00:00\n");
        Properties properties = new Properties();
        properties.setProperty("user", "tester");
        String url = "jdbc:postgresql://" + arguments[0] + "/pushdowndb";
        try (Connection connection = DriverManager.getConnection(url, properties)) {
            Statement statement = connection.createStatement();
            check(connection.getMetaData().getDatabaseProductName(), "PostgreSQL");
            statement.execute("CREATE VIEW sales AS SELECT id, name, price, CAST(day AS DATE) AS day, "
                + "CAST(at AS TIMESTAMP) AS at FROM " + file);
            List<String> tables = new ArrayList<>();
            try (ResultSet rows = connection.getMetaData().getTables(null, "public", "%", new String[] {"TABLE", "VIEW"})) {
                while (rows.next()) {
                    tables.add(rows.getString("TABLE_NAME"));
                }
            }
            check(tables, "[sales]");
            List<String> columns = new ArrayList<>();
            try (ResultSet rows = connection.getMetaData().getColumns(null, "public", "sales", "%")) {
                while (rows.next()) {
                    columns.add(rows.getString("COLUMN_NAME") + " " + rows.getString("TYPE_NAME"));
                }
            }
            check(columns, "[id int8, name text, price float8, day date, at timestamp]");
            connection.getMetaData().getSchemas().close();
            connection.getMetaData().getCatalogs().close();
            connection.getMetaData().getPrimaryKeys(null, "public", "sales").close();

            // More often than the driver's threshold, from where on it prepares and asks for binary values.
            String sql = "SELECT id, name, price, day, at FROM sales WHERE id = ? AND price > ?";
            try (PreparedStatement prepared = connection.prepareStatement(sql)) {
                for (int turn = 0; turn < 10; turn++) {
                    prepared.setLong(1, 1);
                    prepared.setBigDecimal(2, new BigDecimal("1.49"));
                    try (ResultSet rows = prepared.executeQuery()) {
                        check(rows.next(), true);
                        check(rows.getLong(1), 1);
                        check(rows.getString(2), "it's");
                        check(rows.getDouble(3), 1.5);
                        check(rows.getDate(4), Date.valueOf("2024-02-29"));
                        check(rows.getTimestamp(5), Timestamp.valueOf("2024-02-29 12:34:56.789"));
                        check(rows.next(), false);
                    }
                }
            }
            try (PreparedStatement prepared = connection.prepareStatement("SELECT count(*) FROM sales WHERE day < ? AND name IS NULL")) {
                prepared.setDate(1, Date.valueOf("2000-01-01"));
                ResultSet rows = prepared.executeQuery();
                rows.next();
                check(rows.getInt(1), 1);
            }
            try (PreparedStatement prepared = connection.prepareStatement("SELECT count(*) FROM sales WHERE name = ?")) {
                prepared.setString(1, "it's");
                ResultSet rows = prepared.executeQuery();
                rows.next();
                check(rows.getInt(1), 1);
                prepared.setNull(1, java.sql.Types.VARCHAR);
                rows = prepared.executeQuery();
                rows.next();
                check(rows.getInt(1), 0);
            }

            connection.setAutoCommit(false);
            statement.setFetchSize(1000);
            long sum = 0;
            try (ResultSet rows = statement.executeQuery("SELECT value FROM generate_series(1, 100000)")) {
                while (rows.next()) {
                    sum += rows.getLong(1);
                }
            }
            check(sum, 5000050000L);
            connection.commit();
            connection.setAutoCommit(true);

            fails("42P01", () -> statement.executeQuery("SELECT * FROM missing"));
            fails("42601", () -> statement.executeQuery("SELECT 1 )"));
            fails("22012", () -> statement.executeQuery("SELECT 1 / 0").next());
            statement.setQueryTimeout(1);
            fails("57014", () -> statement.executeQuery("SELECT count(*) FROM generate_series(1, 1000000000000) "
                + "WHERE value % 3 = 7"));
            statement.setQueryTimeout(0);
            ResultSet rows = statement.executeQuery("SELECT 1");
            check(rows.next(), true);
        }
        System.out.println("jdbc: ok");
    }
}
