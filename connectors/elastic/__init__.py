"""Elasticsearch and OpenSearch: documents by key, over their interface of HTTP."""
