import java.sql.Connection;
import java.sql.DatabaseMetaData;
import java.sql.DriverManager;
import java.sql.ResultSet;
import java.sql.ResultSetMetaData;
import java.sql.SQLException;
import java.sql.Statement;

/** Carries out statements with Flink's JDBC driver: the first argument is a URL, the others are statements. */
public class Queries {
    public static void main(String[] arguments) throws Exception {
        try (Connection connection = DriverManager.getConnection(arguments[0])) {
            System.out.println(connection.getCatalog() + "." + connection.getSchema());
            for (int i = 1; i < arguments.length; i++) {
                try (Statement statement = connection.createStatement()) {
                    if (!statement.execute(arguments[i])) {
                        System.out.println("updated " + statement.getUpdateCount());
                        continue;
                    }
                    print(statement.getResultSet());
                } catch (Exception error) {
                    System.out.println("error " + cause(error));
                }
            }
            DatabaseMetaData about = connection.getMetaData();
            try (ResultSet schemas = about.getSchemas()) {
                while (schemas.next()) {
                    System.out.println("schema " + schemas.getString(2) + "." + schemas.getString(1));
                }
            }
        }
    }

    private static String cause(Throwable error) {
        while (error.getCause() != null) {
            error = error.getCause();
        }
        return String.valueOf(error.getMessage()).replace("\n", " ");
    }

    private static void print(ResultSet rows) throws SQLException {
        ResultSetMetaData about = rows.getMetaData();
        StringBuilder head = new StringBuilder();
        for (int i = 1; i <= about.getColumnCount(); i++) {
            head.append(about.getColumnName(i)).append(' ').append(about.getColumnTypeName(i)).append("; ");
        }
        System.out.println(head);
        while (rows.next()) {
            StringBuilder line = new StringBuilder();
            for (int i = 1; i <= about.getColumnCount(); i++) {
                line.append(rows.getObject(i)).append("; ");
            }
            System.out.println(line);
        }
        rows.close();
    }
}
