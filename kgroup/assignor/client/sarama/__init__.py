"""The assignors of Sarama, a library for Go."""
