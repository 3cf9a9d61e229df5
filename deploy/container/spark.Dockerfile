# Driver and executors of jobs on Spark in a container. In the root of the repository:
#   docker build --file deploy/container/spark.Dockerfile --tag sqlengine-spark .
FROM python:3.13-bookworm AS build
WORKDIR /source
COPY pyproject.toml setup.py MANIFEST.in README.md LICENSE ./
COPY connectors connectors
COPY planner planner
COPY runtime runtime
COPY sqlengine sqlengine
# This image has a C compiler, with which the kernels are built.
RUN python -m venv /opt/sqlengine \
    && /opt/sqlengine/bin/pip install --no-cache-dir ".[spark,objectstore,kafka,postgres,iceberg,delta]" \
    && ln -s "$(/opt/sqlengine/bin/python -c 'import pyspark; print(pyspark.__path__[0])')" /opt/sqlengine/spark

FROM python:3.13-slim-bookworm
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends openjdk-17-jre-headless tini \
    && rm -rf /var/lib/apt/lists/* \
    && ln -s /usr/lib/jvm/java-17-openjdk-* /opt/java
COPY --from=build /opt/sqlengine /opt/sqlengine
COPY --chmod=0755 deploy/container/spark-entrypoint.sh /opt/sqlengine/bin/
ENV PATH=/opt/sqlengine/bin:$PATH JAVA_HOME=/opt/java SPARK_HOME=/opt/sqlengine/spark \
    PYSPARK_PYTHON=/opt/sqlengine/bin/python PYTHONUNBUFFERED=1 HOME=/tmp
# Java wants a name for the number. All that is written is in /data and /tmp.
RUN useradd --uid 10001 --no-create-home --home-dir /tmp sqlengine \
    && install --directory --owner=10001 --group=10001 --mode=0700 /data
USER 10001:10001
ENTRYPOINT ["tini", "-g", "--", "spark-entrypoint.sh"]
CMD ["sqlengine", "--help"]
