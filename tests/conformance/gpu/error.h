/* A header that tests include; a GPU's C library has nothing of it. */
