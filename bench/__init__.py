"""Side-by-side measurements of kgroup and Kafka's own tools, as whole processes."""
