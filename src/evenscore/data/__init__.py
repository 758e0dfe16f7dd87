"""The border: any frame or arrays become aligned, checked, coded columns; and what is asked of them."""
