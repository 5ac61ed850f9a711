"""Records of coordinators, and the members' subscriptions and assignments inside them."""
