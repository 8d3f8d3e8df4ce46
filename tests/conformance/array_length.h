#define array_length(array) (sizeof(array) / sizeof((array)[0]))
#define array_end(array) ((array) + array_length(array))
