"""The assignors of librdkafka: clients of C, C++, Python, .NET, Go, Rust, PHP and Node."""
