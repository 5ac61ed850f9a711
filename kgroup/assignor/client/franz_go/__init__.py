"""The assignors of franz-go, a client library for Go: what its package kgo calls balancers."""
