#!/bin/sh
# What a pod of Spark runs. Spark on Kubernetes starts executors with the word `executor`, and a driver of
# `spark-submit --deploy-mode cluster` with `driver`; what they are to do stands in the environment. Anything else is a command.
set -eu

case "${1:-}" in
driver)
    shift
    exec spark-submit --deploy-mode client \
        --conf "spark.driver.bindAddress=$SPARK_DRIVER_BIND_ADDRESS" \
        --conf "spark.executorEnv.SPARK_DRIVER_POD_IP=$SPARK_DRIVER_BIND_ADDRESS" "$@"
    ;;
executor)
    # SPARK_JAVA_OPT_0, SPARK_JAVA_OPT_1, ..: each is one argument, whatever is in it.
    set --
    number=0
    while value="$(printenv "SPARK_JAVA_OPT_$number")"; do
        set -- "$@" "$value"
        number=$((number + 1))
    done
    exec "$JAVA_HOME/bin/java" "$@" "-Xms$SPARK_EXECUTOR_MEMORY" "-Xmx$SPARK_EXECUTOR_MEMORY" \
        -cp "${SPARK_CLASSPATH:+$SPARK_CLASSPATH:}$SPARK_HOME/jars/*" \
        org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend \
        --driver-url "$SPARK_DRIVER_URL" --executor-id "$SPARK_EXECUTOR_ID" --cores "$SPARK_EXECUTOR_CORES" \
        --app-id "$SPARK_APPLICATION_ID" --hostname "$SPARK_EXECUTOR_POD_IP" \
        --resourceProfileId "$SPARK_RESOURCE_PROFILE_ID" --podName "$SPARK_EXECUTOR_POD_NAME"
    ;;
*)
    exec "$@"
    ;;
esac
