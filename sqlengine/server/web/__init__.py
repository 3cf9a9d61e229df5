"""What people and programs that operate a server ask it over HTTP: the page, and the REST API behind it.

Source: RFC 9110 (HTTP), RFC 9457 (problem details), OpenAPI 3.1, WHATWG HTML (server-sent events).
"""
