"""Records of coordinators, and what members say of themselves inside them."""
