/* An old name of string.h, on a GPU. */
#include <string.h>
