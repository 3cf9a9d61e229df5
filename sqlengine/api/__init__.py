"""The Python API: environments, results, rows, inputs."""
