module kgroup/in_order

go 1.23
