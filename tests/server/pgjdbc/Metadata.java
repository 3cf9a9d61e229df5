import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.sql.Connection;
import java.sql.DatabaseMetaData;
import java.sql.DriverManager;
import java.sql.ResultSet;
import java.sql.ResultSetMetaData;
import java.sql.SQLException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.List;

/**
 * Calls every method of DatabaseMetaData, those with names for each table given, and prints a line for each answer: the method,
 * the table and the rows, or the error. The first argument is a URL, the second a schema, the others are tables.
 */
public class Metadata {
    public static void main(String[] arguments) throws Exception {
        try (Connection connection = DriverManager.getConnection(arguments[0])) {
            DatabaseMetaData about = connection.getMetaData();
            Method[] methods = DatabaseMetaData.class.getDeclaredMethods();
            Arrays.sort(methods, Comparator.comparing(Method::toString));
            for (Method method : methods) {
                int names = (int) Arrays.stream(method.getParameterTypes()).filter(type -> type == String.class).count();
                if (names < 3 && !method.getName().equals("getSchemas")) {
                    call(about, method, arguments[1], null);
                    continue;
                }
                for (int i = 2; i < arguments.length; i++) {
                    call(about, method, arguments[1], arguments[i]);
                }
            }
        }
    }

    private static void call(DatabaseMetaData about, Method method, String schema, String table) {
        Class<?>[] types = method.getParameterTypes();
        Object[] values = new Object[types.length];
        // Names are: catalog, schema, table, column; of getCrossReference the three of another table.
        int names = 0;
        for (int i = 0; i < types.length; i++) {
            if (types[i] == String.class) {
                int place = method.getName().equals("getCrossReference") ? names % 3 : names;
                values[i] = place == 0 ? null : place == 1 ? schema : place == 2 ? table : "%";
                names++;
            } else if (types[i] == boolean.class) {
                values[i] = false;
            } else if (types[i] == int.class) {
                values[i] = method.getName().startsWith("getBest") ? DatabaseMetaData.bestRowSession : ResultSet.TYPE_FORWARD_ONLY;
            } else if (types[i] == Class.class) {
                values[i] = DatabaseMetaData.class;
            }
        }
        String named = method.getName() + (table == null ? "" : " " + table);
        try {
            Object found = method.invoke(about, values);
            System.out.println(named + " = " + (found instanceof ResultSet rows ? shown(rows) : found));
        } catch (InvocationTargetException error) {
            System.out.println("ERROR " + named + " " + String.valueOf(error.getCause()).replace("\n", " "));
        } catch (Exception error) {
            System.out.println("ERROR " + named + " " + error);
        }
    }

    private static String shown(ResultSet rows) throws SQLException {
        ResultSetMetaData about = rows.getMetaData();
        List<String> lines = new ArrayList<>();
        while (rows.next()) {
            List<String> cells = new ArrayList<>();
            for (int i = 1; i <= about.getColumnCount(); i++) {
                cells.add(rows.getString(i));
            }
            lines.add(String.join("|", cells.stream().map(String::valueOf).toList()));
        }
        rows.close();
        return lines.size() + " rows: " + String.join("; ", lines);
    }
}
