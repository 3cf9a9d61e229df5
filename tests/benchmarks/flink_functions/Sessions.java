import java.time.LocalDateTime;
import org.apache.flink.table.annotation.ArgumentHint;
import org.apache.flink.table.annotation.ArgumentTrait;
import org.apache.flink.table.annotation.DataTypeHint;
import org.apache.flink.table.annotation.StateHint;
import org.apache.flink.table.functions.ProcessTableFunction;
import org.apache.flink.types.Row;

/** How many rows of a key came until none came for ten seconds: `tests/benchmarks/process_functions.py` in Java. */
@DataTypeHint("ROW<n BIGINT>")
public class Sessions extends ProcessTableFunction<Row> {
    public static class Seen {
        public long n = 0L;
    }

    public void eval(
            Context ctx,
            @StateHint Seen seen,
            @ArgumentHint({ArgumentTrait.SET_SEMANTIC_TABLE, ArgumentTrait.REQUIRE_ON_TIME}) Row input) {
        TimeContext<LocalDateTime> clock = ctx.timeContext(LocalDateTime.class);
        seen.n++;
        clock.registerOnTime("idle", clock.time().plusSeconds(10));
    }

    public void onTimer(OnTimerContext ctx, Seen seen) {
        collect(Row.of(seen.n));
        ctx.clearAll();
    }
}
