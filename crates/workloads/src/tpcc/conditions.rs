//! The twelve consistency conditions (clause 3.3.2), as queries for what breaks them.

/// A condition, and the query whose rows break it.
#[derive(Clone, Copy, Debug)]
pub struct Condition {
    /// Its number in clause 3.3.2.
    pub number: u32,
    /// What it says.
    pub says: &'static str,
    /// A query whose rows break it.
    pub broken: &'static str,
}

/// The twelve conditions.
pub const CONDITIONS: [Condition; 12] = [
    Condition {
        number: 1,
        says: "W_YTD = sum(D_YTD) of each warehouse",
        broken: "SELECT w_id, w_ytd, d FROM warehouse, (SELECT d_w_id, sum(d_ytd) AS d FROM district GROUP BY d_w_id) AS t \
                 WHERE w_id = d_w_id AND w_ytd <> d",
    },
    Condition {
        number: 2,
        says: "D_NEXT_O_ID - 1 = max(O_ID), and max(NO_O_ID) where there is one, of each district",
        broken: "SELECT d_w_id, d_id, d_next_o_id, o, n FROM district JOIN \
                 (SELECT o_w_id, o_d_id, max(o_id) AS o FROM orders GROUP BY o_w_id, o_d_id) AS a \
                 ON d_w_id = o_w_id AND d_id = o_d_id LEFT JOIN \
                 (SELECT no_w_id, no_d_id, max(no_o_id) AS n FROM new_order GROUP BY no_w_id, no_d_id) AS b \
                 ON d_w_id = no_w_id AND d_id = no_d_id WHERE d_next_o_id - 1 <> o OR n > o OR (n IS NOT NULL AND n <> o)",
    },
    Condition {
        number: 3,
        says: "max(NO_O_ID) - min(NO_O_ID) + 1 = the rows of NEW-ORDER of each district",
        broken: "SELECT no_w_id, no_d_id FROM new_order GROUP BY no_w_id, no_d_id \
                 HAVING max(no_o_id) - min(no_o_id) + 1 <> count(*)",
    },
    Condition {
        number: 4,
        says: "sum(O_OL_CNT) = the rows of ORDER-LINE of each district",
        broken: "SELECT o_w_id, o_d_id, o, l FROM \
                 (SELECT o_w_id, o_d_id, sum(o_ol_cnt) AS o FROM orders GROUP BY o_w_id, o_d_id) AS a FULL JOIN \
                 (SELECT ol_w_id, ol_d_id, count(*) AS l FROM order_line GROUP BY ol_w_id, ol_d_id) AS b \
                 ON o_w_id = ol_w_id AND o_d_id = ol_d_id WHERE o IS DISTINCT FROM l",
    },
    Condition {
        number: 5,
        says: "O_CARRIER_ID is null where there is a row of NEW-ORDER, and nowhere else",
        broken: "SELECT o_w_id, o_d_id, o_id, o_carrier_id, no_o_id FROM orders FULL JOIN new_order \
                 ON o_w_id = no_w_id AND o_d_id = no_d_id AND o_id = no_o_id \
                 WHERE o_id IS NULL OR (o_carrier_id IS NULL) <> (no_o_id IS NOT NULL)",
    },
    Condition {
        number: 6,
        says: "O_OL_CNT = the rows of ORDER-LINE of each order",
        broken: "SELECT o_w_id, o_d_id, o_id, o_ol_cnt, l FROM orders FULL JOIN \
                 (SELECT ol_w_id, ol_d_id, ol_o_id, count(*) AS l FROM order_line GROUP BY ol_w_id, ol_d_id, ol_o_id) AS b \
                 ON o_w_id = ol_w_id AND o_d_id = ol_d_id AND o_id = ol_o_id WHERE o_ol_cnt IS DISTINCT FROM l",
    },
    Condition {
        number: 7,
        says: "OL_DELIVERY_D is null where the order's O_CARRIER_ID is, and nowhere else",
        broken: "SELECT ol_w_id, ol_d_id, ol_o_id FROM order_line JOIN orders \
                 ON o_w_id = ol_w_id AND o_d_id = ol_d_id AND o_id = ol_o_id \
                 WHERE (ol_delivery_d IS NULL) <> (o_carrier_id IS NULL)",
    },
    Condition {
        number: 8,
        says: "W_YTD = sum(H_AMOUNT) of each warehouse",
        broken: "SELECT w_id, w_ytd, h FROM warehouse, (SELECT h_w_id, sum(h_amount) AS h FROM history GROUP BY h_w_id) AS t \
                 WHERE w_id = h_w_id AND w_ytd <> h",
    },
    Condition {
        number: 9,
        says: "D_YTD = sum(H_AMOUNT) of each district",
        broken: "SELECT d_w_id, d_id, d_ytd, h FROM district, \
                 (SELECT h_w_id, h_d_id, sum(h_amount) AS h FROM history GROUP BY h_w_id, h_d_id) AS t \
                 WHERE d_w_id = h_w_id AND d_id = h_d_id AND d_ytd <> h",
    },
    Condition {
        number: 10,
        says: "C_BALANCE = sum(OL_AMOUNT) of what was delivered - sum(H_AMOUNT) of each customer",
        broken: "SELECT c_w_id, c_d_id, c_id, c_balance, l, h FROM customer LEFT JOIN \
                 (SELECT o_w_id, o_d_id, o_c_id, sum(ol_amount) AS l FROM orders JOIN order_line \
                  ON o_w_id = ol_w_id AND o_d_id = ol_d_id AND o_id = ol_o_id WHERE ol_delivery_d IS NOT NULL \
                  GROUP BY o_w_id, o_d_id, o_c_id) AS a ON c_w_id = o_w_id AND c_d_id = o_d_id AND c_id = o_c_id LEFT JOIN \
                 (SELECT h_c_w_id, h_c_d_id, h_c_id, sum(h_amount) AS h FROM history GROUP BY h_c_w_id, h_c_d_id, h_c_id) AS b \
                 ON c_w_id = h_c_w_id AND c_d_id = h_c_d_id AND c_id = h_c_id \
                 WHERE c_balance <> coalesce(l, 0) - coalesce(h, 0)",
    },
    Condition {
        number: 11,
        says: "the rows of ORDER - those of NEW-ORDER = the orders with a carrier, of each district (2,100 at first)",
        broken: "SELECT o_w_id, o_d_id, o, d, coalesce(n, 0) AS n FROM \
                 (SELECT o_w_id, o_d_id, count(*) AS o, count(o_carrier_id) AS d FROM orders GROUP BY o_w_id, o_d_id) AS a LEFT JOIN \
                 (SELECT no_w_id, no_d_id, count(*) AS n FROM new_order GROUP BY no_w_id, no_d_id) AS b \
                 ON o_w_id = no_w_id AND o_d_id = no_d_id WHERE o - coalesce(n, 0) <> d",
    },
    Condition {
        number: 12,
        says: "C_BALANCE + C_YTD_PAYMENT = sum(OL_AMOUNT) of what was delivered, of each customer",
        broken: "SELECT c_w_id, c_d_id, c_id, c_balance, c_ytd_payment, l FROM customer LEFT JOIN \
                 (SELECT o_w_id, o_d_id, o_c_id, sum(ol_amount) AS l FROM orders JOIN order_line \
                  ON o_w_id = ol_w_id AND o_d_id = ol_d_id AND o_id = ol_o_id WHERE ol_delivery_d IS NOT NULL \
                  GROUP BY o_w_id, o_d_id, o_c_id) AS a ON c_w_id = o_w_id AND c_d_id = o_d_id AND c_id = o_c_id \
                 WHERE c_balance + c_ytd_payment <> coalesce(l, 0)",
    },
];
