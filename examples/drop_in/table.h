/* The one function of table.c. */
#ifndef TABLE_H
#define TABLE_H

/* Writes the table of a number to table-NUMBER.txt: 0, or an error number. */
int table(int number);

#endif
