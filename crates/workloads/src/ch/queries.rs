//! The queries of CH-benCHmark: those of TPC-H over the tables of TPC-C and three more.
//!
//! R. Cole et al., "The mixed workload CH-benCHmark", DBTest 2011. The texts follow those that the
//! authors published with it. What is done to them here:
//!
//! - The tables are called as elsewhere in this crate.
//! - `mod(a, b)` is `a % b`, and times are literals of type TIMESTAMP.
//! - Times up to which rows count are in 2099 where they were in 2012 and 2020. Else nothing of
//!   today would be found. Times from which on rows count are as they were.
//! - Query 8 gives null, and no error, where lines that are loaded as delivered, at no price, are all it finds.
//! - A comment at the query names any other difference.

/// The queries, number 1 first: one statement each, without a semicolon.
pub const QUERIES: [&str; 22] = [
    // 1: Lines that were delivered, by their numbers in the order.
    "\
select
	ol_number,
	sum(ol_quantity) as sum_qty,
	sum(ol_amount) as sum_amount,
	avg(ol_quantity) as avg_qty,
	avg(ol_amount) as avg_amount,
	count(*) as count_order
from
	order_line
where
	ol_delivery_d > TIMESTAMP '2007-01-02 00:00:00'
group by
	ol_number
order by
	ol_number",
    // 2: Suppliers in Europe that have the least of an item.
    "\
select
	su_suppkey,
	su_name,
	n_name,
	i_id,
	i_name,
	su_address,
	su_phone,
	su_comment
from
	item, supplier, stock, nation, region,
	(
		select
			s_i_id as m_i_id,
			min(s_quantity) as m_s_quantity
		from
			stock, supplier, nation, region
		where
			(s_w_id * s_i_id) % 10000 = su_suppkey
			and su_nationkey = n_nationkey
			and n_regionkey = r_regionkey
			and r_name like 'Europ%'
		group by
			s_i_id
	) m
where
	i_id = s_i_id
	and (s_w_id * s_i_id) % 10000 = su_suppkey
	and su_nationkey = n_nationkey
	and n_regionkey = r_regionkey
	and i_data like '%b'
	and r_name like 'Europ%'
	and i_id = m_i_id
	and s_quantity = m_s_quantity
order by
	n_name,
	su_name,
	i_id",
    // 3: Orders that wait, of customers in some states, by what they are worth.
    "\
select
	ol_o_id,
	ol_w_id,
	ol_d_id,
	sum(ol_amount) as revenue,
	o_entry_d
from
	customer, new_order, orders, order_line
where
	c_state like 'A%'
	and c_id = o_c_id
	and c_w_id = o_w_id
	and c_d_id = o_d_id
	and no_w_id = o_w_id
	and no_d_id = o_d_id
	and no_o_id = o_id
	and ol_w_id = o_w_id
	and ol_d_id = o_d_id
	and ol_o_id = o_id
	and o_entry_d > TIMESTAMP '2007-01-02 00:00:00'
group by
	ol_o_id,
	ol_w_id,
	ol_d_id,
	o_entry_d
order by
	revenue desc,
	o_entry_d",
    // 4: Orders with lines that were delivered, by how many lines they have. To 2099, not 2012.
    "\
select
	o_ol_cnt,
	count(*) as order_count
from
	orders
where
	o_entry_d >= TIMESTAMP '2007-01-02 00:00:00'
	and o_entry_d < TIMESTAMP '2099-01-02 00:00:00'
	and exists (
		select
			*
		from
			order_line
		where
			o_id = ol_o_id
			and o_w_id = ol_w_id
			and o_d_id = ol_d_id
			and ol_delivery_d >= o_entry_d
	)
group by
	o_ol_cnt
order by
	o_ol_cnt",
    // 5: What customers bought from suppliers of their own nation, in Europe.
    "\
select
	n_name,
	sum(ol_amount) as revenue
from
	customer, orders, order_line, stock, supplier, nation, region
where
	c_id = o_c_id
	and c_w_id = o_w_id
	and c_d_id = o_d_id
	and ol_o_id = o_id
	and ol_w_id = o_w_id
	and ol_d_id = o_d_id
	and ol_w_id = s_w_id
	and ol_i_id = s_i_id
	and (s_w_id * s_i_id) % 10000 = su_suppkey
	and ascii(substr(c_state, 1, 1)) = su_nationkey
	and su_nationkey = n_nationkey
	and n_regionkey = r_regionkey
	and r_name = 'Europe'
	and o_entry_d >= TIMESTAMP '2007-01-02 00:00:00'
group by
	n_name
order by
	revenue desc",
    // 6: What was delivered, in all. To 2099, not 2020.
    "\
select
	sum(ol_amount) as revenue
from
	order_line
where
	ol_delivery_d >= TIMESTAMP '1999-01-01 00:00:00'
	and ol_delivery_d < TIMESTAMP '2099-01-01 00:00:00'
	and ol_quantity between 1 and 100000",
    // 7: What two nations bought from each other, by years. To 2099, not 2012.
    "\
select
	su_nationkey as supp_nation,
	substr(c_state, 1, 1) as cust_nation,
	extract(year from o_entry_d) as l_year,
	sum(ol_amount) as revenue
from
	supplier, stock, order_line, orders, customer, nation n1, nation n2
where
	ol_supply_w_id = s_w_id
	and ol_i_id = s_i_id
	and (s_w_id * s_i_id) % 10000 = su_suppkey
	and ol_w_id = o_w_id
	and ol_d_id = o_d_id
	and ol_o_id = o_id
	and c_id = o_c_id
	and c_w_id = o_w_id
	and c_d_id = o_d_id
	and su_nationkey = n1.n_nationkey
	and ascii(substr(c_state, 1, 1)) = n2.n_nationkey
	and (
		(n1.n_name = 'Germany' and n2.n_name = 'Cambodia')
		or (n1.n_name = 'Cambodia' and n2.n_name = 'Germany')
	)
	and ol_delivery_d
		between TIMESTAMP '2007-01-02 00:00:00' and TIMESTAMP '2099-01-02 00:00:00'
group by
	su_nationkey,
	substr(c_state, 1, 1),
	extract(year from o_entry_d)
order by
	su_nationkey,
	cust_nation,
	l_year",
    // 8: The share of a nation's suppliers in what Europe bought, by years. To 2099, not 2012.
    "\
select
	extract(year from o_entry_d) as l_year,
	sum(case when n2.n_name = 'Germany' then ol_amount else 0 end) / nullif(sum(ol_amount), 0) as mkt_share
from
	item, supplier, stock, order_line, orders, customer, nation n1, nation n2, region
where
	i_id = s_i_id
	and ol_i_id = s_i_id
	and ol_supply_w_id = s_w_id
	and (s_w_id * s_i_id) % 10000 = su_suppkey
	and ol_w_id = o_w_id
	and ol_d_id = o_d_id
	and ol_o_id = o_id
	and c_id = o_c_id
	and c_w_id = o_w_id
	and c_d_id = o_d_id
	and n1.n_nationkey = ascii(substr(c_state, 1, 1))
	and n1.n_regionkey = r_regionkey
	and ol_i_id < 1000
	and r_name = 'Europe'
	and su_nationkey = n2.n_nationkey
	and o_entry_d between TIMESTAMP '2007-01-02 00:00:00' and TIMESTAMP '2099-01-02 00:00:00'
	and i_data like '%b'
	and i_id = ol_i_id
group by
	extract(year from o_entry_d)
order by
	l_year",
    // 9: What some items brought the suppliers of each nation, by years.
    "\
select
	n_name,
	extract(year from o_entry_d) as l_year,
	sum(ol_amount) as sum_profit
from
	item, stock, supplier, order_line, orders, nation
where
	ol_i_id = s_i_id
	and ol_supply_w_id = s_w_id
	and (s_w_id * s_i_id) % 10000 = su_suppkey
	and ol_w_id = o_w_id
	and ol_d_id = o_d_id
	and ol_o_id = o_id
	and ol_i_id = i_id
	and su_nationkey = n_nationkey
	and i_data like '%BB'
group by
	n_name,
	extract(year from o_entry_d)
order by
	n_name,
	l_year desc",
    // 10: Customers by what was delivered to them.
    "\
select
	c_id,
	c_last,
	sum(ol_amount) as revenue,
	c_city,
	c_phone,
	n_name
from
	customer, orders, order_line, nation
where
	c_id = o_c_id
	and c_w_id = o_w_id
	and c_d_id = o_d_id
	and ol_w_id = o_w_id
	and ol_d_id = o_d_id
	and ol_o_id = o_id
	and o_entry_d >= TIMESTAMP '2007-01-02 00:00:00'
	and o_entry_d <= ol_delivery_d
	and n_nationkey = ascii(substr(c_state, 1, 1))
group by
	c_id,
	c_last,
	c_city,
	c_phone,
	n_name
order by
	revenue desc",
    // 11: Items of a nation's suppliers that are ordered most.
    "\
select
	s_i_id,
	sum(s_order_cnt) as ordercount
from
	stock, supplier, nation
where
	(s_w_id * s_i_id) % 10000 = su_suppkey
	and su_nationkey = n_nationkey
	and n_name = 'Germany'
group by
	s_i_id
having
	sum(s_order_cnt) > (
		select
			sum(s_order_cnt) * 0.005
		from
			stock, supplier, nation
		where
			(s_w_id * s_i_id) % 10000 = su_suppkey
			and su_nationkey = n_nationkey
			and n_name = 'Germany'
	)
order by
	ordercount desc",
    // 12: Lines that were delivered, by their orders' lengths and carriers. To 2099, not 2020.
    "\
select
	o_ol_cnt,
	sum(case when o_carrier_id = 1 or o_carrier_id = 2 then 1 else 0 end) as high_line_count,
	sum(case when o_carrier_id <> 1 and o_carrier_id <> 2 then 1 else 0 end) as low_line_count
from
	orders, order_line
where
	ol_w_id = o_w_id
	and ol_d_id = o_d_id
	and ol_o_id = o_id
	and o_entry_d <= ol_delivery_d
	and ol_delivery_d < TIMESTAMP '2099-01-01 00:00:00'
group by
	o_ol_cnt
order by
	o_ol_cnt",
    // 13: Customers by how many orders they have of some carriers.
    "\
select
	c_count,
	count(*) as custdist
from
	(
		select
			c_id,
			count(o_id)
		from
			customer left outer join orders on (
				c_w_id = o_w_id
				and c_d_id = o_d_id
				and c_id = o_c_id
				and o_carrier_id > 8
			)
		group by
			c_id
	) as c_orders (c_id, c_count)
group by
	c_count
order by
	custdist desc,
	c_count desc",
    // 14: The percentage of some items in what was delivered. To 2099, not 2020.
    "\
select
	100.00 * sum(case when i_data like 'PR%' then ol_amount else 0 end) / (1 + sum(ol_amount))
		as promo_revenue
from
	order_line, item
where
	ol_i_id = i_id
	and ol_delivery_d >= TIMESTAMP '2007-01-02 00:00:00'
	and ol_delivery_d < TIMESTAMP '2099-01-02 00:00:00'",
    // 15: The suppliers of whom most was delivered.
    "\
with revenue (supplier_no, total_revenue) as (
	select
		(s_w_id * s_i_id) % 10000 as supplier_no,
		sum(ol_amount) as total_revenue
	from
		order_line, stock
	where
		ol_i_id = s_i_id
		and ol_supply_w_id = s_w_id
		and ol_delivery_d >= TIMESTAMP '2007-01-02 00:00:00'
	group by
		(s_w_id * s_i_id) % 10000
)
select
	su_suppkey,
	su_name,
	su_address,
	su_phone,
	total_revenue
from
	supplier, revenue
where
	su_suppkey = supplier_no
	and total_revenue = (
		select
			max(total_revenue)
		from
			revenue
	)
order by
	su_suppkey",
    // 16: Items, with the number of their suppliers that have no complaint.
    "\
select
	i_name,
	substr(i_data, 1, 3) as brand,
	i_price,
	count(distinct ((s_w_id * s_i_id) % 10000)) as supplier_cnt
from
	stock, item
where
	i_id = s_i_id
	and i_data not like 'zz%'
	and ((s_w_id * s_i_id) % 10000) not in (
		select
			su_suppkey
		from
			supplier
		where
			su_comment like '%bad%'
	)
group by
	i_name,
	substr(i_data, 1, 3),
	i_price
order by
	supplier_cnt desc",
    // 17: What is ordered in less than usual amounts, for a year.
    "\
select
	sum(ol_amount) / 2.0 as avg_yearly
from
	order_line,
	(
		select
			i_id,
			avg(ol_quantity) as a
		from
			item, order_line
		where
			i_data like '%b'
			and ol_i_id = i_id
		group by
			i_id
	) t
where
	ol_i_id = t.i_id
	and ol_quantity < t.a",
    // 18: Orders that are worth much, with their customers. The published text has no comma after
    // c_id, and no name for the sum.
    "\
select
	c_last,
	c_id,
	o_id,
	o_entry_d,
	o_ol_cnt,
	sum(ol_amount) as amount_sum
from
	customer, orders, order_line
where
	c_id = o_c_id
	and c_w_id = o_w_id
	and c_d_id = o_d_id
	and ol_w_id = o_w_id
	and ol_d_id = o_d_id
	and ol_o_id = o_id
group by
	o_id,
	o_w_id,
	o_d_id,
	c_id,
	c_last,
	o_entry_d,
	o_ol_cnt
having
	sum(ol_amount) > 200
order by
	amount_sum desc,
	o_entry_d",
    // 19: What some items brought in some warehouses.
    "\
select
	sum(ol_amount) as revenue
from
	order_line, item
where
	(
		ol_i_id = i_id
		and i_data like '%a'
		and ol_quantity >= 1
		and ol_quantity <= 10
		and i_price between 1 and 400000
		and ol_w_id in (1, 2, 3)
	)
	or (
		ol_i_id = i_id
		and i_data like '%b'
		and ol_quantity >= 1
		and ol_quantity <= 10
		and i_price between 1 and 400000
		and ol_w_id in (1, 2, 4)
	)
	or (
		ol_i_id = i_id
		and i_data like '%c'
		and ol_quantity >= 1
		and ol_quantity <= 10
		and i_price between 1 and 400000
		and ol_w_id in (1, 5, 3)
	)",
    // 20: A nation's suppliers that have more of some items than they need. Items are joined, as in
    // BenchBase, and not looked for by IN: DataFusion would do so after joining stock and lines.
    "\
select
	su_name,
	su_address
from
	supplier, nation
where
	su_suppkey in (
		select
			(s_i_id * s_w_id) % 10000
		from
			stock
			inner join item on i_id = s_i_id
			inner join order_line on ol_i_id = s_i_id
		where
			ol_delivery_d > TIMESTAMP '2010-05-23 12:00:00'
			and i_data like 'co%'
		group by
			s_i_id,
			s_w_id,
			s_quantity
		having
			2 * s_quantity > sum(ol_quantity)
	)
	and su_nationkey = n_nationkey
	and n_name = 'Germany'
order by
	su_name",
    // 21: A nation's suppliers by the lines that came last in their orders. Suppliers stood first
    // in FROM: with NOT EXISTS, DataFusion would keep that order and pair all of them with all
    // lines.
    "\
select
	su_name,
	count(*) as numwait
from
	order_line l1, orders, stock, supplier, nation
where
	ol_o_id = o_id
	and ol_w_id = o_w_id
	and ol_d_id = o_d_id
	and ol_w_id = s_w_id
	and ol_i_id = s_i_id
	and (s_w_id * s_i_id) % 10000 = su_suppkey
	and l1.ol_delivery_d > o_entry_d
	and not exists (
		select
			*
		from
			order_line l2
		where
			l2.ol_o_id = l1.ol_o_id
			and l2.ol_w_id = l1.ol_w_id
			and l2.ol_d_id = l1.ol_d_id
			and l2.ol_delivery_d > l1.ol_delivery_d
	)
	and su_nationkey = n_nationkey
	and n_name = 'Germany'
group by
	su_name
order by
	numwait desc,
	su_name",
    // 22: Customers without orders whose balances are high, by their states' first letters.
    "\
select
	substr(c_state, 1, 1) as country,
	count(*) as numcust,
	sum(c_balance) as totacctbal
from
	customer
where
	substr(c_phone, 1, 1) in ('1', '2', '3', '4', '5', '6', '7')
	and c_balance > (
		select
			avg(c_balance)
		from
			customer
		where
			c_balance > 0.00
			and substr(c_phone, 1, 1) in ('1', '2', '3', '4', '5', '6', '7')
	)
	and not exists (
		select
			*
		from
			orders
		where
			o_c_id = c_id
			and o_w_id = c_w_id
			and o_d_id = c_d_id
	)
group by
	substr(c_state, 1, 1)
order by
	substr(c_state, 1, 1)",
];
