import java.math.BigDecimal;
import java.nio.file.Path;
import java.sql.Connection;
import java.sql.DatabaseMetaData;
import java.sql.Date;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;

/** The JDBC driver of Flight SQL against an SQL server: FlightJdbc.java HOST:PORT FOLDER. */
public class FlightJdbc {
    static void check(boolean holds, String what) {
        if (!holds) throw new AssertionError(what);
    }

    static List<String> column(ResultSet rows, String name) throws SQLException {
        List<String> values = new ArrayList<>();
        while (rows.next()) values.add(rows.getString(name));
        rows.close();
        return values;
    }

    public static void main(String[] args) throws Exception {
        Properties properties = new Properties();
        properties.put("user", "tester");
        properties.put("password", "any");
        String url = "jdbc:arrow-flight-sql://" + args[0] + "?useEncryption=false";
        java.nio.file.Files.writeString(Path.of(args[1], "t.csv"), "id,name,price\n1,one,1.50\n2,two,2.25\n3,,3.00\n");
        try (Connection connection = DriverManager.getConnection(url, properties)) {
            try (Statement statement = connection.createStatement()) {
                ResultSet rows = statement.executeQuery(
                    "SELECT CAST(7 AS INT) AS i, CAST(-9223372036854775807 AS BIGINT) AS l, 'it''s' AS t, true AS b, "
                    + "CAST(12.50 AS DECIMAL(9, 2)) AS d, CAST('2024-02-29' AS DATE) AS day, 0.5e0 AS f, "
                    + "CAST(NULL AS INT) AS n, TIMESTAMP '2024-02-29 12:34:56.789' AS ts");
                check(rows.next(), "a row");
                check(rows.getInt("i") == 7 && rows.getLong("l") == -9223372036854775807L, "integers");
                check(rows.getString("t").equals("it's") && rows.getBoolean("b"), "a text and a truth");
                check(rows.getBigDecimal("d").compareTo(new BigDecimal("12.50")) == 0, "a decimal");
                check(rows.getDate("day").toString().equals("2024-02-29"), "a date " + rows.getDate("day"));
                check(rows.getDouble("f") == 0.5, "a double");
                check(rows.getInt("n") == 0 && rows.wasNull(), "a NULL");
                check(rows.getTimestamp("ts") != null, "an instant");
                check(!rows.next(), "one row");
                rows = statement.executeQuery("SELECT name FROM '" + args[1] + "/t.csv' ORDER BY id");
                check(column(rows, "name").equals(java.util.Arrays.asList("one", "two", null)), "the rows of a file");
                rows = statement.executeQuery("SELECT value AS v FROM generate_series(1, 100000)");
                long sum = 0;
                while (rows.next()) sum += rows.getLong(1);
                check(sum == 5000050000L, "many rows");
                check(statement.executeUpdate("CREATE VIEW seen AS SELECT 1 AS \"A b\", 'x' AS t") == 0, "a definition");
                try {
                    statement.executeQuery("SELECT * FROM no_such_table");
                    throw new AssertionError("a table that there is not");
                } catch (SQLException error) {
                    check(error.getMessage().contains("no_such_table"), error.getMessage());
                }
            }
            try (PreparedStatement prepared =
                    connection.prepareStatement("SELECT count(*) FROM '" + args[1] + "/t.csv' WHERE id >= ? AND price < ?")) {
                for (int round = 1; round <= 3; round++) {
                    prepared.setLong(1, round);
                    prepared.setBigDecimal(2, new BigDecimal("3.00"));
                    ResultSet rows = prepared.executeQuery();
                    check(rows.next() && rows.getLong(1) == Math.max(0, 3 - round), "round " + round);
                    rows.close();
                }
            }
            DatabaseMetaData metadata = connection.getMetaData();
            check(metadata.getDatabaseProductName().equals("PushdownDB"), metadata.getDatabaseProductName());
            check(column(metadata.getTables(null, null, "se%", null), "TABLE_NAME").equals(List.of("seen")), "tables");
            check(column(metadata.getColumns(null, null, "seen", null), "COLUMN_NAME").equals(List.of("A b", "t")), "columns");
            check(column(metadata.getSchemas(), "TABLE_SCHEM").equals(List.of("public")), "schemas");
            check(column(metadata.getTableTypes(), "TABLE_TYPE").equals(List.of("TABLE", "VIEW")), "types of tables");
            check(!metadata.getPrimaryKeys(null, null, "seen").next(), "keys");
        }
        System.out.println("flight jdbc: ok");
        System.exit(0);
    }
}
